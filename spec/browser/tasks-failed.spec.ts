import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { describeInBrowser, part, visit } from './chromium.ts';
import { failures, queueButton, untilFailed } from './task-rows.ts';

/** Handlers whose tasks fail: `breaks` always, `needs` until a file exists, `tires` after five attempts. */
const handlers = `
import { existsSync } from 'node:fs';
export default {
  breaks({ reason }) { throw new PermanentError(reason); },
  needs({ file }) { if (!existsSync(file)) throw new PermanentError('the file is missing'); },
  tires() { throw new RetryAfter(1, 'try again'); },
};`;

const items = (page: Page) => page.locator('.failed-item');
const reasons = (page: Page) => page.locator('.reason');
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
const texts = async (page: Page, selector: string) =>
  (await page.locator(selector).allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim());

/** Queues tasks and waits until `count` have failed. */
async function fail(tasks: string, count: number, ...submissions: object[]): Promise<void> {
  for (const submission of submissions) await post(`${tasks}/tasks`, submission);
  await untilFailed(tasks, count);
}

/** Confirms a purge of the listed tasks with a reason, and waits for the countdown. */
async function purgeOnly(page: Page, reason: string): Promise<void> {
  await items(page).filter({ hasText: reason }).getByRole('checkbox').check();
  await button(page, 'Purge').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Purge' }).click();
  await page.getByText('1 task will be purged in 8 seconds.').waitFor();
}

/** Time to undo a purge, and time for which its result is shown, in milliseconds. */
type HeldDelay = 8_000 | 6_000;

/** Holds back the page's timers of a purge, until {@link elapse} runs them. Call it before the page loads. */
const holdTimers = (page: Page) =>
  page.addInitScript(() => {
    const held = new Map<number, { callback(): void; delay: number }>();
    const { setTimeout: start, clearTimeout: stop } = window;
    let id = 0;
    Object.assign(window, {
      setTimeout(callback: () => void, delay: number) {
        if (delay !== 8_000 && delay !== 6_000) return start(callback, delay);
        id -= 1;
        held.set(id, { callback, delay });
        return id;
      },
      clearTimeout: (timer: number) => held.delete(timer) || stop(timer),
      elapse(wanted: number) {
        for (const [timer, { callback, delay }] of held) if (delay === wanted && held.delete(timer)) callback();
      },
    });
  });

const elapse = (page: Page, delay: HeldDelay) =>
  // @ts-expect-error: defined above
  page.evaluate((wanted) => window.elapse(wanted), delay);

const breaks = (reason: string) => ({ action: 'breaks', data: { reason } });

describeInBrowser('the failed tasks on the board', () => {
  const services = onceForSuite(async () => startServices({ env: { TASK_HANDLERS: await writeHandlers(handlers) } }));
  afterEach(async () => {
    const { tasks } = services();
    const { status } = await post(`${tasks}/dead-letters/purge`, { all: true });
    expect(status).to.equal(200);
  });

  it('are grouped by cause, with counts, in one tab stop, and say which failures are permanent', async () => {
    const { tasks } = services();
    await fail(tasks, 4, breaks('green'), breaks('green'), breaks('blue'), { action: 'tires' });
    await visit(`${tasks}/?state=failed`, {}, async (page) => {
      await reasons(page).first().waitFor();
      expect((await texts(page, '.reason')).sort()).to.deep.equal([
        '1 blue breaks permanent',
        '1 try again tires',
        '2 green breaks permanent',
        '4 All causes',
      ]);
      expect(await items(page).count()).to.equal(4);
      expect(await page.locator('.reason[tabindex="0"]').count()).to.equal(1);
      await page.locator('.reason[tabindex="0"]').focus();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => document.querySelectorAll('.failed-item').length === 2);
      expect(new URL(page.url()).searchParams.get('cause')).to.equal('green');
      await page.getByLabel('Select breaks').first().check();
      await page.getByText('It has a permanent error: a redrive fails again').waitFor();
      await reasons(page).filter({ hasText: 'try again' }).click();
      await page.getByText('5 attempts').waitFor();
      expect(await items(page).count()).to.equal(1);
      await page.mouse.move(0, 0);
      await fail(tasks, 5, { action: 'tires' });
      await reasons(page)
        .filter({ hasText: /2\s+try again/ })
        .waitFor();
      await page.waitForFunction(() => document.querySelectorAll('.failed-item').length === 2);
    });
  });

  it('are redriven, also those that match but are not listed', async () => {
    const { tasks } = services();
    const file = join(await temporaryFolder(), 'needed');
    await fail(tasks, 103, ...Array(102).fill({ action: 'needs', data: { file } }), breaks('green'));
    await writeFile(file, '');
    await visit(`${tasks}/?state=failed`, { prepare: holdTimers }, async (page) => {
      await reasons(page).filter({ hasText: 'missing' }).click();
      await page.waitForFunction(() => document.querySelectorAll('.failed-item').length === 100);
      await page.getByLabel('Select all shown tasks').check();
      await button(page, 'Select all 102').click();
      await page.getByText('102 selected').waitFor();
      await page.locator('#find').fill('needs');
      await part(page, 'selected-count').filter({ hasText: '100 tasks' }).waitFor();
      await page.locator('#find').fill('');
      await part(page, 'selected-count').filter({ hasText: '100 of 102 tasks' }).waitFor();
      await page.getByLabel('Select all shown tasks').check();
      await button(page, 'Select all 102').click();
      await button(page, 'Redrive').click();
      await page.getByRole('dialog').getByText('All failed permanently').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).click();
      await page.getByText('102 tasks will be redriven in 8 seconds.').waitFor();
      expect(await failures(tasks)).to.equal(103);
      await elapse(page, 8_000);
      await page.getByText('Redrove 102 tasks.').waitFor();
      // Until all have run, because their file is deleted at the end of the test.
      await eventually(
        async () => (await request(`${tasks}/queue`)).body as { completed: number },
        ({ completed }) => completed === 102,
      );
      // The chosen cause has no tasks any more, so all are listed.
      await items(page).filter({ hasText: 'green' }).waitFor();
    });
  });

  it('are purged after a confirmation, unless that is undone within eight seconds, also while the result of an earlier one is shown', async () => {
    const { tasks } = services();
    await fail(tasks, 2, breaks('green'), breaks('blue'));
    await visit(`${tasks}/?state=failed`, { prepare: holdTimers }, async (page) => {
      await items(page).first().waitFor();
      await items(page).filter({ hasText: 'green' }).getByRole('checkbox').check();
      await button(page, 'Purge').click();
      await page.getByRole('dialog').getByText('Purge 1 task?').waitFor();
      await button(page, 'Keep').click();
      expect(await items(page).count()).to.equal(2);

      await purgeOnly(page, 'green');
      await page.getByText('Leaving this page keeps them.').waitFor();
      expect(await items(page).count()).to.equal(1);
      await button(page, 'Undo').click();
      await items(page).nth(1).waitFor();
      expect(await failures(tasks)).to.equal(2);

      await purgeOnly(page, 'green');
      await elapse(page, 8_000);
      await page.getByText('Purged 1 task.').waitFor();
      expect(await failures(tasks)).to.equal(1);
      expect(await texts(page, '.failed-item .failed-reason')).to.deep.equal(['permanent blue']);

      // The time for which the result is shown ends during the next purge.
      await purgeOnly(page, 'blue');
      await elapse(page, 6_000);
      await button(page, 'Undo').click();
      await items(page).waitFor();
      expect(await failures(tasks)).to.equal(1);
    });
  });

  it('are sent once, and a failure is shown beside the purge that is pending', async () => {
    const { tasks } = services();
    await fail(tasks, 2, breaks('green'), breaks('blue'));
    await visit(`${tasks}/?state=failed`, { prepare: holdTimers, tolerated: /status of 503/ }, async (page) => {
      let sent = 0;
      const held = Promise.withResolvers<void>();
      await page.route('**/dead-letters/purge', async (route) => {
        sent += 1;
        await held.promise;
        await route.fulfill({ status: 503, json: { error: { code: 'x', message: 'Come back later.' } } });
      });
      await purgeOnly(page, 'green');
      await elapse(page, 8_000);
      await page.getByText('Purging', { exact: true }).waitFor();
      await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })));
      expect(await part(page, 'purge-text').textContent()).to.equal('Purging');
      await purgeOnly(page, 'blue');
      held.resolve();
      await page.getByText(/^Not purged: .* 1 task will be purged in 8 seconds/).waitFor();
      await button(page, 'Undo').click();
      await items(page).nth(1).waitFor();
      expect(sent).to.equal(1);
    });
  });

  it('are not purged if the user leaves the page first', async () => {
    const { tasks } = services();
    await fail(tasks, 1, breaks('green'));
    await visit(`${tasks}/?state=failed`, { prepare: holdTimers }, async (page) => {
      await page.getByLabel('Select all shown tasks').check();
      await button(page, 'Purge').click();
      await page.getByRole('dialog').getByRole('button', { name: 'Purge' }).click();
      await button(page, 'Undo').waitFor();
      // A page that the browser keeps for its Back button goes on from here.
      await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })));
      await page.getByText('Nothing was purged.').waitFor();
      await items(page).waitFor();
      await elapse(page, 8_000);
      await elapse(page, 6_000);
      await part(page, 'purge-notice').waitFor({ state: 'hidden' });
      expect(await failures(tasks)).to.equal(1);
    });
  });

  it('have an empty state with a task that fails, and can be edited and queued again', async () => {
    const { tasks } = services();
    await visit(`${tasks}/?state=failed`, {}, async (page) => {
      await page.getByText('No task has failed').waitFor();
      const curl = await part(page, 'empty-curl').textContent();
      expect(curl).to.equal(`curl ${tasks}/tasks -d '{"action":"sum","data":{"numbers":["one"]}}'`);
      await post(`${tasks}/tasks`, JSON.parse(curl?.split("'")[1] ?? ''));
      await items(page).waitFor();
      expect(await items(page).textContent()).to.match(/sum\s+permanent/);

      await fail(tasks, 2, breaks('x'.repeat(300)));
      await page.getByRole('button', { name: 'Edit and resubmit breaks' }).click();
      await page.waitForFunction(() => document.querySelector<HTMLTextAreaElement>('#json')?.value.includes('xxx'));
      expect(JSON.parse(await page.locator('#json').inputValue())).to.deep.equal({ reason: 'x'.repeat(300) });
      expect(await page.locator('#choice').inputValue()).to.equal('breaks');
      await page.locator('#json').fill('{"reason": "other"}');
      await queueButton(page).click();
      await reasons(page).filter({ hasText: 'other' }).waitFor();
    });
  });
});
