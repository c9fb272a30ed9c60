import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post, request } from '../support/program.ts';
import { eventually, until } from '../support/until.ts';
import { violations } from './accessibility.ts';
import { describeInBrowser, partShows, visit } from './chromium.ts';
import { elapse, holdTimers } from './held-timers.ts';
import { failures, rows, startWithHandlers, untilFailed, untilRows } from './task-rows.ts';

const CLICKS = 10;

const HANDLERS = `
import { existsSync } from 'node:fs';
export default {
  needs({ file }) { if (!existsSync(file)) throw new PermanentError('the file is missing'); },
  breaks({ reason }) { throw new PermanentError(reason); },
  tires: { maxAttempts: 1, handler() { throw new Error('try again'); } },
};`;

/** Queues six tasks a second at irregular intervals until the returned function is called. */
function queueIrregularly(tasks: string, submission: (number: number) => object): () => Promise<void> {
  let isStopped = false;
  const run = async () => {
    for (let number = 30; !isStopped; number++) {
      await post(`${tasks}/tasks`, submission(number));
      await setTimeout((((number * 7) % 11) / 5) * (1_000 / 6));
    }
  };
  const running = run();
  return () => {
    isStopped = true;
    return running;
  };
}

/** Moves the focus forward to an element with this text. */
async function tabTo(page: Page, text: RegExp): Promise<void> {
  for (let stops = 0; stops < 40; stops++) {
    await page.keyboard.press('Tab');
    if (text.test(await page.evaluate(() => document.activeElement?.textContent ?? ''))) return;
  }
  throw new Error(`no tab stop ${text}`);
}

/**
 * Moves the pointer to a row, again if the page has moved meanwhile, and returns the id of the row under the pointer.
 * `hover` would scroll to a row that moves down as others arrive.
 */
async function aim(page: Page, row: number): Promise<string> {
  return eventually(
    async () => {
      const { x = 0, y = 0, height = 0 } = (await rows(page).nth(row).boundingBox()) ?? {};
      const point = [x + 200, y + height / 2] as const;
      await page.mouse.move(...point);
      return page.evaluate(
        ([left, top]) => document.elementFromPoint(left, top)?.closest<HTMLElement>('[data-row]')?.dataset.row ?? '',
        point,
      );
    },
    (id) => id !== '',
  );
}

describeInBrowser('the task board in an incident', () => {
  const services = onceForSuite(() => startWithHandlers(HANDLERS));

  it('opens the row that a click was aimed at while tasks fail irregularly', async () => {
    const { tasks } = services();
    const submission = (number: number) => ({ action: 'breaks', data: { reason: `reason ${number % 5}` } });
    await post(`${tasks}/tasks/batch`, { tasks: Array.from({ length: 30 }, (_, number) => submission(number)) });
    const stop = queueIrregularly(tasks, submission);
    try {
      await visit(`${tasks}/?state=failed`, { width: 1440, height: 1600 }, async (page) => {
        await rows(page).nth(12).waitFor();
        for (let click = 0; click < CLICKS; click++) {
          const aimedAt = await aim(page, click % 8);
          // The time in which a person reads the row and presses the button.
          await setTimeout(100 + ((click * 97) % 300));
          await page.mouse.down();
          await setTimeout(80);
          await page.mouse.up();
          const opened = () => page.evaluate(() => new URLSearchParams(location.search).get('task'));
          expect(await eventually(opened, (id) => id !== null), `click ${click}`).to.equal(aimedAt);
          await page.keyboard.press('Escape');
          await page.mouse.move(0, 0);
        }
        // A notice above the list moves the page between the press and the release of the button.
        await aim(page, 3);
        await page.mouse.down();
        const id = await page.locator('.task-row:active').getAttribute('data-row');
        await page.evaluate(() => {
          (document.querySelector('.tabs') as HTMLElement).style.marginTop = '60px';
        });
        await page.mouse.up();
        await page.waitForURL(new RegExp(`task=${id}`));
        await page.keyboard.press('Escape');
        await aim(page, 3);
        await partShows(page, 'unseen', /^\d+ new – show$/);
        expect(await violations(page)).to.deep.equal([]);
        const first = await rows(page).first().getAttribute('data-row');
        await page.keyboard.press('u');
        await page.waitForFunction((id) => document.querySelector('.task-row')?.getAttribute('data-row') !== id, first);
      });
    } finally {
      await stop();
    }
    // On a busy machine, a click can need five seconds.
  }).timeout(360_000);

  it('asks before it redrives a task that failed permanently or more than ten, and can take that back', async () => {
    const { tasks } = services();
    await post(`${tasks}/dead-letters/purge`, { all: true });
    for (let i = 0; i < 11; i++) await post(`${tasks}/tasks`, { action: 'tires' });
    await post(`${tasks}/tasks`, { action: 'breaks', data: { reason: 'always' } });
    await untilFailed(tasks, 12);
    await visit(`${tasks}/?state=failed`, { prepare: holdTimers }, async (page) => {
      const dialog = page.getByRole('dialog');
      const tires = rows(page).filter({ hasText: 'try again' });
      await tires.first().getByRole('button', { name: 'Redrive' }).click();
      await page.getByText('Redrove 1 task.').waitFor();
      await page.mouse.move(0, 0);
      await untilRows(page, 12);

      // The key `r` redrives the focused row.
      await rows(page).filter({ hasText: 'always' }).locator('[data-open]').focus();
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
      expect(await rows(page).count()).to.equal(0);
      await page.getByRole('button', { name: 'Undo' }).click();
      await page.getByText('Undone. Nothing was redriven.').waitFor();
      await rows(page).nth(11).waitFor();
      expect(await failures(tasks)).to.equal(12);
    });
  });

  it('redrives the failed tasks of one cause of the last ten minutes, and no other, by keyboard only', async () => {
    const { tasks } = services();
    await post(`${tasks}/dead-letters/purge`, { all: true });
    const file = join(await temporaryFolder(), 'needed');
    const fail = async (...submissions: object[]) => {
      const before = await failures(tasks);
      const { body } = await post(`${tasks}/tasks/batch`, { tasks: submissions });
      await untilFailed(tasks, before + submissions.length);
      return body.tasks.map(({ id }: { id: string }) => id) as string[];
    };
    const needs = { action: 'needs', data: { file } };
    const other = { action: 'breaks', data: { reason: 'another cause' } };
    const older = await fail(needs, needs, needs, other);
    const since = Math.floor(Date.now() / 1_000) + 1;
    await until(() => Date.now() >= since * 1_000);
    const recent = await fail(needs, needs, other, other);
    await writeFile(file, '');
    // For the page, the older tasks failed more than ten minutes ago.
    const prepare = async (page: Page) => {
      await holdTimers(page);
      await page.addInitScript(
        (now) => {
          Date.now = () => now;
        },
        (since + 600) * 1_000,
      );
    };
    await visit(`${tasks}/?state=failed`, { prepare }, async (page) => {
      await rows(page).nth(7).waitFor();
      const act = async (text: RegExp) => {
        await tabTo(page, text);
        await page.keyboard.press('Enter');
      };
      for (const key of ['/', 'Tab', 'ArrowRight']) await page.keyboard.press(key);
      await page.locator('.reason', { hasText: 'another cause' }).filter({ hasText: '2' }).waitFor();
      await tabTo(page, /All causes/);
      await page.keyboard.press('ArrowDown');
      const isAimed = await page.locator(':focus', { hasText: 'the file is missing' }).count();
      if (isAimed === 0) await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await page.getByText('Redrive all 2').waitFor();
      await act(/^Redrive all 2$/);
      await page.getByRole('dialog').getByText('All failed permanently').waitFor();
      await act(/^Redrive$/);
      await page.getByText('2 tasks will be redriven in 8 seconds.').waitFor();
      await elapse(page, 8_000);
      await page.getByText('Redrove 2 tasks.').waitFor();
    });
    const statusOf = async (id: string) => (await request(`${tasks}/tasks/${id}`)).body.status as string;
    const statuses = () => Promise.all([...older, ...recent].map(statusOf));
    const wanted = [...Array(4).fill('failed'), 'completed', 'completed', 'failed', 'failed'];
    await eventually(statuses, (found) => `${found}` === `${wanted}`);
  });
});
