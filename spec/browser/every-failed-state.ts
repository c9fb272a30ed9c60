import { expect } from 'chai';
import { post } from '../support/program.ts';
import { part, partShows, visit } from './chromium.ts';
import { checkAppearance } from './every-state.ts';
import { startWithHandlers, untilFailed } from './task-rows.ts';

/** Handlers whose tasks fail: with a long permanent error, and after five attempts. */
const HANDLERS = `
const long = 'W'.repeat(150);
export default {
  [long]() { throw new PermanentError(long + ' one line after another '.repeat(10)); },
  tires() { throw new RetryAfter(1, 'try again'); },
};`;

/** Defines the spec of the charts and of every state of the failed tasks at a given width and color scheme. */
export function itShowsFailedTasksAt(width: number, colorScheme: 'light' | 'dark'): void {
  it(`failed tasks, ${width} pixels wide, ${colorScheme}: every state is accessible and fits`, async () => {
    const { tasks } = await startWithHandlers(HANDLERS);
    await visit(`${tasks}/?state=failed`, { width, colorScheme }, async (page) => {
      await page.getByText('No task has failed').waitFor();
      const isOpen = await part(page, 'charts-details').evaluate((details: HTMLDetailsElement) => details.open);
      expect(isOpen, 'the charts are folded on a small screen at first').to.equal(width >= 768);
      if (!isOpen) await page.getByText('The last 15 minutes', { exact: true }).click();
      await page.getByText('Actions and workers').click();
      await part(page, 'throughput').locator('canvas').waitFor();
      await checkAppearance(page, 'none, with charts');
      for (const action of ['W'.repeat(150), 'tires']) await post(`${tasks}/tasks`, { action });
      await untilFailed(tasks, 2);
      await page.locator('.task-row').nth(1).waitFor();
      await page.locator('.reason').nth(2).waitFor();
      await page.getByLabel('Select all shown tasks').check();
      await page.getByText('1 of them has a permanent error').waitFor();
      await checkAppearance(page, 'selected');
      await page.locator('.task-row [data-open]').first().click();
      await partShows(page, 'inspector-state', 'failed');
      await checkAppearance(page, 'inspected');
      const isModal = await page.evaluate(() => document.querySelector('dialog[open]')?.matches(':modal'));
      if (width === 320) expect(isModal, 'the inspector covers a small screen').to.equal(true);
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Purge', exact: true }).click();
      await part(page, 'confirm').waitFor();
      await checkAppearance(page, 'asked before a purge');
      await part(page, 'confirm').click();
      await part(page, 'undo').waitFor();
      await checkAppearance(page, 'purge pending');
      await part(page, 'undo').click();
      await page.getByText('Undone. Nothing was purged.').waitFor();
      await checkAppearance(page, 'purge undone');
      await page.locator('.task-row').nth(1).waitFor();
    });
  });
}
