import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { violations } from './accessibility.ts';
import { describeInBrowser, part, visit } from './chromium.ts';
import { failures, untilFailed } from './task-rows.ts';

const HANDLERS = `
export default {
  breaks({ reason }) { throw new PermanentError(reason); },
  tires: { maxAttempts: 1, handler() { throw new Error('try again'); } },
};`;

/** Queues six failing tasks a second at irregular intervals until the returned function is called. */
function failIrregularly(tasks: string): () => Promise<void> {
  let isStopped = false;
  const run = async () => {
    for (let number = 0; !isStopped; number++) {
      await post(`${tasks}/tasks`, { action: 'breaks', data: { reason: `reason ${number % 5}` } });
      await setTimeout((((number * 7) % 11) / 5) * (1_000 / 6));
    }
  };
  const running = run();
  return () => {
    isStopped = true;
    return running;
  };
}

const items = (page: Page) => page.locator('.failed-item');

describeInBrowser('the task board in an incident', () => {
  const services = onceForSuite(async () => startServices({ env: { TASK_HANDLERS: await writeHandlers(HANDLERS) } }));

  it('opens the row that a click was aimed at, 25 times of 25, while tasks fail irregularly', async () => {
    const { tasks } = services();
    await post(`${tasks}/tasks/batch`, { tasks: Array(30).fill({ action: 'breaks', data: { reason: 'reason 0' } }) });
    const stop = failIrregularly(tasks);
    try {
      await visit(`${tasks}/?state=failed`, { width: 1440, height: 1600 }, async (page) => {
        await items(page).nth(12).waitFor();
        let hits = 0;
        for (let click = 0; click < 25; click++) {
          const {
            x = 0,
            y = 0,
            height = 0,
          } = (await items(page)
            .nth(click % 8)
            .boundingBox()) ?? {};
          await page.mouse.move(x + 200, y + height / 2);
          const aimedAt = await page.evaluate(
            ([left, top]) => document.elementFromPoint(left, top)?.closest<HTMLElement>('[data-row]')?.dataset.row,
            [x + 200, y + height / 2] as const,
          );
          // The time in which a person reads the row and presses the button.
          await setTimeout(100 + ((click * 97) % 300));
          await page.mouse.down();
          await setTimeout(80);
          await page.mouse.up();
          await page.waitForURL(/task=/);
          if (new URL(page.url()).searchParams.get('task') === aimedAt) hits += 1;
          await page.keyboard.press('Escape');
          await page.mouse.move(0, 0);
        }
        expect(hits).to.equal(25);
        await items(page).nth(3).hover();
        await part(page, 'unseen')
          .filter({ hasText: /^\d+ new – show$/ })
          .waitFor();
        expect(await violations(page)).to.deep.equal([]);

        // A notice above the list moves the page between the press and the release of the button.
        const pressed = items(page).nth(3);
        await page.mouse.down();
        const id = await pressed.getAttribute('data-row');
        await page.evaluate(() => {
          (document.querySelector('.tabs') as HTMLElement).style.marginTop = '60px';
        });
        await page.mouse.up();
        await page.waitForURL(new RegExp(`task=${id}`));
        await page.keyboard.press('Escape');
        await items(page).nth(3).hover();
        await part(page, 'unseen')
          .filter({ hasText: /^\d+ new – show$/ })
          .waitFor();
        const first = await items(page).first().getAttribute('data-row');
        await page.keyboard.press('u');
        await page.waitForFunction(
          (id) => document.querySelector('.failed-item')?.getAttribute('data-row') !== id,
          first,
        );
      });
    } finally {
      await stop();
    }
  });

  it('asks before it redrives a task that failed permanently or more than ten, and can take that back', async () => {
    const { tasks } = services();
    await post(`${tasks}/dead-letters/purge`, { all: true });
    for (let i = 0; i < 11; i++) await post(`${tasks}/tasks`, { action: 'tires' });
    await post(`${tasks}/tasks`, { action: 'breaks', data: { reason: 'always' } });
    await untilFailed(tasks, 12);
    await visit(`${tasks}/?state=failed`, {}, async (page) => {
      const dialog = page.getByRole('dialog');
      const tires = items(page).filter({ hasText: 'try again' });
      await tires.first().getByRole('button', { name: 'Redrive' }).click();
      await page.getByText('Redrove 1 task.').waitFor();
      await page.mouse.move(0, 0);
      await page.waitForFunction(() => document.querySelectorAll('.failed-item').length === 12);

      // The key `r` redrives the focused row.
      await items(page).filter({ hasText: 'always' }).locator('[data-open]').focus();
      await page.keyboard.press('r');
      await dialog.getByText('Redrive 1 task?').waitFor();
      await dialog.getByText('It has a permanent error').waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'hidden' });

      await page.getByLabel('Select all shown tasks').check();
      await page.getByRole('button', { name: 'Redrive', exact: true }).click();
      await dialog.getByText('Redrive 12 tasks?').waitFor();
      await dialog.getByText('1 of them has a permanent error').waitFor();
      await dialog.getByRole('button', { name: 'Redrive' }).click();
      await page.getByText('12 tasks will be redriven in 8 seconds.').waitFor();
      expect(await items(page).count()).to.equal(0);
      await page.getByRole('button', { name: 'Undo' }).click();
      await page.getByText('Undone. Nothing was redriven.').waitFor();
      await items(page).nth(11).waitFor();
      expect(await failures(tasks)).to.equal(12);
    });
  });
});
