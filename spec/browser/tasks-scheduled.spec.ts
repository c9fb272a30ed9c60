import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { describeInBrowser, part, visit } from './chromium.ts';

describeInBrowser('a scheduled task on the board', () => {
  const services = onceForSuite(() => startServices());

  it('is listed with its time, next due first, and runs now on request', async () => {
    const { tasks } = services();
    for (const [action, delay] of [
      ['next week', 604_800],
      ['next hour', 3600],
    ] as const)
      await post(`${tasks}/tasks`, { action, delay, priority: 1 });
    await visit(`${tasks}/?state=scheduled`, {}, async (page) => {
      const rows = page.locator('.task-row');
      await rows.nth(1).waitFor();
      expect(await rows.locator('.task-name').allTextContents()).to.deep.equal(['next hour', 'next week']);
      expect(await rows.first().locator('[data-part="time"]').textContent()).to.match(/^in (59|60) min/);
      await part(page, 'count-scheduled').getByText('2', { exact: true }).waitFor();
      await post(`${tasks}/tasks`, { action: 'tomorrow', delay: 86_400 });
      await rows.nth(2).waitFor();
      expect(await rows.locator('.task-name').allTextContents()).to.deep.equal(['next hour', 'tomorrow', 'next week']);

      await rows.first().locator('.task-name').click();
      const inspector = page.getByRole('dialog');
      await inspector.getByText('Due, priority 1').waitFor();
      await inspector.getByRole('button', { name: 'Run now' }).click();
      await part(page, 'inspector-state').filter({ hasText: 'completed' }).waitFor();
      expect(await inspector.getByRole('button', { name: 'Run now' }).isVisible()).to.equal(false);
      await part(page, 'count-scheduled').getByText('2', { exact: true }).waitFor();
    });
  });
});
