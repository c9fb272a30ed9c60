import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Locator, Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post, request, untilAnswer } from '../support/program.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { part, partShows } from './page.ts';
import { queueButton, rows, startWithHandlers, texts, untilFailed, untilRows } from './task-rows.ts';

/** Holds back the page's timers of an undo and of its result, until {@link elapse} runs them. Call it before the page loads. */
const holdTimers = (page: Page) =>
  page.addInitScript(() => {
    // A held timer has its negative delay as its id.
    const held = new Map<number, () => void>();
    const { setTimeout: start, clearTimeout: stop } = window;
    Object.assign(window, {
      setTimeout(callback: () => void, delay: number) {
        if (delay !== 8_000 && delay !== 6_000) return start(callback, delay);
        held.set(-delay, callback);
        return -delay;
      },
      clearTimeout: (timer: number) => held.delete(timer) || stop(timer),
      elapse(delay: number) {
        const callback = held.get(-delay);
        held.delete(-delay);
        callback?.();
      },
    });
  });

const elapse = (page: Page, delay: 8_000 | 6_000) =>
  // @ts-expect-error: defined above
  page.evaluate((wanted) => window.elapse(wanted), delay);

const HANDLERS = `
import { existsSync } from 'node:fs';
const untilAborted = (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
export default {
  echo: ({ text }) => text,
  breaks({ reason }) { throw new PermanentError(reason); },
  needs({ file }) { if (!existsSync(file)) throw new PermanentError('the file is missing'); },
  crashes() { throw new TypeError('no text'); },
  tires() { throw new RetryAfter(1, 'try again'); },
  late() { throw new RetryAfter(90_000, 'much later'); },
  import: (_, { signal, progress }) => { progress(0.256, 'row 256 of 1000'); return untilAborted(signal); },
};`;

const reasons = (page: Page, hasText: string | RegExp = '') => page.locator('.reason').filter({ hasText });
const row = (page: Page, hasText: string | RegExp) => rows(page).filter({ hasText });
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

const counts = async (tasks: string) => (await request(`${tasks}/queue`)).body;

async function fail(tasks: string, count: number, ...submissions: object[]): Promise<void> {
  await post(`${tasks}/tasks/batch`, { tasks: submissions });
  await untilFailed(tasks, count);
}

async function confirm(page: Page, pressed: Locator, question: string, countdown: string): Promise<void> {
  await pressed.click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(question).waitFor();
  const [name = ''] = question.split(' ');
  await dialog.getByRole('button', { name }).click();
  await page.getByText(countdown).waitFor();
}

async function purgeOnly(page: Page, reason: string): Promise<void> {
  await row(page, reason).getByRole('checkbox').check();
  await confirm(page, button(page, 'Purge'), 'Purge 1 task?', '1 task will be purged in 8 seconds.');
  // The list stands still under the pointer.
  await page.mouse.move(0, 0);
}

const breaks = (reason: string) => ({ action: 'breaks', data: { reason } });

const inspector = (page: Page) => page.getByRole('dialog');
const state = (page: Page, name: string) => partShows(page, 'inspector-state', name);
const steps = (page: Page) => texts(page.locator('.step'));

describeInBrowser('the failed tasks on the board', () => {
  const services = onceForSuite(() => startWithHandlers(HANDLERS));
  afterEach(async () => {
    const { tasks } = services();
    const { status } = await post(`${tasks}/dead-letters/purge`, { all: true });
    expect(status).to.equal(200);
  });

  it('are grouped by cause, selected until another cause is chosen, and redriven at once unless one is permanent or they are more than ten, which asks first and can be undone', async () => {
    const { tasks } = services();
    const missing = [breaks('the file is missing'), { action: 'needs', data: { file: '/missing' } }];
    await fail(tasks, 15, breaks('green'), breaks('green'), ...missing, ...Array(11).fill({ action: 'tires' }));
    const page = await visit(`${tasks}/?state=failed`, { prepare: holdTimers });
    await reasons(page).first().waitFor();
    expect((await texts(reasons(page))).sort()).to.deep.equal([
      '1 the file is missing breaks permanent',
      '1 the file is missing needs permanent',
      '11 try again tires',
      '15 All causes',
      '2 green breaks permanent',
    ]);
    await untilRows(page, 15);
    await page.locator('.reason[tabindex="0"]').focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    await untilRows(page, 2);
    expect(new URL(page.url()).searchParams.get('cause')).to.equal('green');
    await page.getByLabel('Select breaks').first().check();
    await page.getByText('It has a permanent error: a redrive fails again').waitFor();
    // The key `r` redrives the selected rows or the focused one.
    await page.getByLabel('Select breaks').first().uncheck();
    await rows(page).first().locator('[data-open]').focus();
    await page.keyboard.press('r');
    await page.getByRole('dialog').getByText('Redrive 1 task?').waitFor();
    await page.keyboard.press('Escape');

    // Two causes differ only by their actions.
    await reasons(page, /missing\s*breaks/).click();
    await page.getByLabel('Select breaks').check();
    await partShows(page, 'list-count', '1 selected');
    await reasons(page, /missing\s*needs/).click();
    await partShows(page, 'list-count', /^1 task$/);

    await reasons(page, 'try again').click();
    await row(page, /try again\s*5/)
      .nth(10)
      .waitFor();
    await page.getByLabel('Select all shown tasks').check();
    await confirm(page, button(page, 'Redrive'), 'Redrive 11 tasks?', '11 tasks will be redriven in 8 seconds.');
    expect(await rows(page).count()).to.equal(0);
    await button(page, 'Undo').click();
    await page.getByText('Undone. Nothing was redriven.').waitFor();
    await untilRows(page, 11);
    expect(await counts(tasks)).to.include({ dead: 15 });
    await rows(page).first().getByRole('button', { name: 'Redrive' }).click();
    await page.getByText('Redrove 1 task.').waitFor();
    await page.mouse.move(0, 0);
    await fail(tasks, 16, { action: 'tires' });
    await reasons(page, /12\s+try again/).waitFor();
    await untilRows(page, 12);
  });

  it('are redriven, also those that match but are not listed, at a pace', async () => {
    const { tasks } = services();
    const file = join(await temporaryFolder(), 'needed');
    await fail(tasks, 103, ...Array(102).fill({ action: 'needs', data: { file } }), breaks('green'));
    await writeFile(file, '');
    const page = await visit(`${tasks}/?state=failed`, { prepare: holdTimers });
    await reasons(page, 'missing').click();
    await untilRows(page, 100);
    await page.getByLabel('Select all shown tasks').check();
    await button(page, 'Select all 102').click();
    await page.getByText('102 selected').waitFor();
    await page.locator('#find').fill('breaks');
    await page.getByText('No failed task matches.').waitFor();
    await page.locator('#find').fill('needs');
    await partShows(page, 'list-count', '100 of 102 tasks');

    await page.goto(`${tasks}/?state=failed`);
    await reasons(page, 'missing').click();
    const counted = page.waitForRequest(/dead-letters\/reasons\?.*since=\d/);
    await page.getByLabel('10m').check();
    await counted;
    await button(page, 'Redrive all 102').click();
    await page.getByRole('dialog').getByText('All failed permanently').waitFor();
    await page.getByLabel('Pace').selectOption('100 a second');
    await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).click();
    await page.getByText('102 tasks will be redriven in 8 seconds.').waitFor();
    expect(await counts(tasks)).to.include({ dead: 103 });
    const sent = page.waitForRequest('**/dead-letters/redrive');
    await elapse(page, 8_000);
    const { since, ...filter } = (await sent).postDataJSON();
    expect(filter).to.deep.equal({ action: 'needs', cause: 'the file is missing', per_second: 100 });
    expect(since).to.be.closeTo(Date.now() / 1000 - 600, 120);
    await page.getByText('Redrove 102 tasks.').waitFor();
    // Until all have run, because their file is deleted at the end of the test.
    await untilAnswer(`${tasks}/queue`, ({ body }) => body.completed === 102);
    await page.getByText('No failed task matches.').waitFor();
    await button(page, 'Show all').click();
    await row(page, 'green').waitFor();
  });

  it('can be edited and queued again, and are purged, as unfinished ones are cancelled, after a confirmation that the user does not undo, also by leaving the page', async () => {
    const { tasks } = services();
    const page = await visit(`${tasks}/?state=failed`, { prepare: holdTimers, tolerated: /status of (404|503)/ });
    await page.getByText('No task has failed').waitFor();
    const curl = await part(page, 'empty-curl').textContent();
    expect(curl).to.equal(`curl ${tasks}/tasks -d '{"action":"sum","data":{"numbers":["one"]}}'`);
    await post(`${tasks}/tasks`, JSON.parse(curl?.split("'")[1] ?? ''));
    await row(page, /sum.*permanent/s).waitFor();

    await fail(tasks, 2, breaks('x'.repeat(300)));
    await page.getByRole('button', { name: 'Edit and resubmit breaks' }).click();
    await page.waitForFunction(() => document.querySelector<HTMLTextAreaElement>('#json')?.value.includes('xxx'));
    expect(JSON.parse(await page.locator('#json').inputValue())).to.deep.equal({ reason: 'x'.repeat(300) });
    expect(await page.locator('#choice').inputValue()).to.equal('breaks');
    await page.locator('#json').fill('{"reason": "green"}');
    await queueButton(page).click();
    await row(page, 'green').waitFor();

    await row(page, 'green').getByRole('checkbox').check();
    await button(page, 'Purge').click();
    await page.getByRole('dialog').getByText('Purge 1 task?').waitFor();
    await button(page, 'Keep').click();
    expect(await rows(page).count()).to.equal(3);

    await purgeOnly(page, 'green');
    await page.getByText('Leaving this page keeps them.').waitFor();
    expect(await rows(page).count()).to.equal(2);
    await button(page, 'Undo').click();
    await rows(page).nth(2).waitFor();
    expect(await counts(tasks)).to.include({ dead: 3 });

    await purgeOnly(page, 'xxx');
    await elapse(page, 8_000);
    await page.getByText('Purged 1 task.').waitFor();
    expect(await counts(tasks)).to.include({ dead: 2 });
    expect(await texts(rows(page).locator('.task-name'))).to.deep.equal(['breaks', 'sum']);

    // The time for which the result is shown ends during the next purge.
    await purgeOnly(page, 'green');
    await elapse(page, 6_000);
    await button(page, 'Undo').click();
    await rows(page).nth(1).waitFor();

    await button(page, 'Pause list').click();
    await purgeOnly(page, 'green');
    await confirm(page, button(page, 'Purge all 1'), 'Purge 1 task?', '1 task will be purged in 8 seconds');
    await elapse(page, 8_000);
    await page.getByText('No task has failed').waitFor();
    await fail(tasks, 2, breaks('purple'), breaks('blue'));
    await button(page, '2 new – show').click();
    await rows(page).nth(1).waitFor();

    let sent = 0;
    const held = Promise.withResolvers<void>();
    await page.route('**/dead-letters/purge', async (route) => {
      sent += 1;
      await held.promise;
      await route.fulfill({ status: 503, json: { error: { code: 'x', message: 'Come back later.' } } });
    });
    await purgeOnly(page, 'purple');
    await elapse(page, 8_000);
    await page.getByText('Purging', { exact: true }).waitFor();
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })));
    expect(await part(page, 'toast-text').textContent()).to.equal('Purging');
    await purgeOnly(page, 'blue');
    held.resolve();
    await page.getByText(/^Not purged: .* 1 task will be purged in 8 seconds/).waitFor();
    // A page that the browser keeps for its Back button goes on from here.
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })));
    await page.getByText('Nothing was purged.').waitFor();
    await rows(page).nth(1).waitFor();
    await elapse(page, 8_000);
    await elapse(page, 6_000);
    await part(page, 'toast').waitFor({ state: 'hidden' });
    expect(sent).to.equal(1);

    const reasons = ['blue', 'green', 'green', 'red', 'red', 'red'];
    const scheduled = reasons.map((reason, index) => ({ ...breaks(reason), delay: 3600 + index }));
    await post(`${tasks}/tasks/batch`, { tasks: scheduled });
    const cancel = (count: number) => {
      const countdown = `${count} tasks will be cancelled in 8 seconds.`;
      return confirm(page, part(page, 'cancel-all'), `Cancel ${count} tasks?`, countdown);
    };
    await page.goto(`${tasks}/?state=scheduled`);
    await page.getByLabel('Select breaks').nth(3).check();
    const sixth = page.getByLabel('Select breaks').nth(5);
    await sixth.click({ modifiers: ['Shift'] });
    await partShows(page, 'list-count', '3 selected');
    await cancel(3);
    expect(await rows(page).count()).to.equal(3);
    await button(page, 'Undo').click();
    await rows(page).nth(5).waitFor();
    expect(await counts(tasks)).to.include({ scheduled: 6, cancelled: 0 });

    await rows(page).nth(3).getByRole('checkbox').check();
    await rows(page).nth(4).locator('[data-open]').focus();
    await page.keyboard.press('x');
    await cancel(2);
    await elapse(page, 8_000);
    await page.getByText('Cancelled 2 tasks.').waitFor();
    expect(await counts(tasks)).to.include({ scheduled: 4, cancelled: 2 });

    await page.locator('#find').fill('green');
    await partShows(page, 'list-count', /^2 tasks$/);
    await cancel(2);
    await elapse(page, 8_000);
    await page.getByText('No scheduled task matches.').waitFor();
    expect(await counts(tasks)).to.include({ scheduled: 2, cancelled: 4 });
  });
});

/** Goes to the address of another task, as the Back button does. */
const goTo = (page: Page, id: string) =>
  page.evaluate((task) => {
    history.pushState(null, '', `?task=${task}`);
    dispatchEvent(new PopStateEvent('popstate'));
  }, id);

describeInBrowser('the inspector of the task board', () => {
  it('shows the timeline, payload and result of a task by its address, hands it to the form, redrives or cancels it, and says that an id is unknown', async () => {
    const { tasks } = await startWithHandlers(HANDLERS);
    const submit = async (submission: object) => (await post(`${tasks}/tasks`, submission)).body.id as string;
    const id = await submit({ action: 'echo', data: { text: 'hello' } });
    const page = await visit(`${tasks}/?task=${id}`, { tolerated: /status of 404/ });
    await state(page, 'completed');
    expect(await part(page, 'inspector-title').textContent()).to.equal('echo');
    expect(await part(page, 'inspector-id').textContent()).to.equal(id);
    const [accepted, completed, ...others] = await steps(page);
    expect(accepted).to.match(/^Accepted \d\d:\d\d:\d\d/);
    expect(completed).to.match(/^Completed \d\d:\d\d:\d\d/);
    expect(others).to.deep.equal([]);
    expect(await part(page, 'tree').first().innerText()).to.match(/action: "echo"\ndata: \{1\}\ntext: "hello"/);
    const time = page.locator('.step time').last();
    expect(await time.getAttribute('title')).to.match(/^\w+, \d+ \w+ \d{4} at \d\d:\d\d:\d\d \S+/);
    await page.getByLabel('Time zone').selectOption('UTC');
    const utc = (await time.getAttribute('datetime'))?.slice(11, 23);
    await inspector(page).getByText(`${utc}`).first().waitFor();
    expect(await time.getAttribute('title')).to.match(/UTC$/);
    await page.reload();
    await inspector(page).getByText(`${utc}`).first().waitFor();
    await page.getByLabel('Time zone').selectOption('Local time');
    const text = async (name: string) => (await part(page, name).locator('pre').textContent()) ?? '';
    const json = async (name: string) => JSON.parse(await text(name));
    expect(await json('payload-text')).to.deep.include({ action: 'echo', data: { text: 'hello' } });
    expect(await json('result-text')).to.deep.equal({ output: 'hello' });
    expect(await text('curl-text')).to.include(`/tasks -d '{"action":"echo","data":{"text":"hello"}}'`);
    await page.keyboard.press('Escape');
    await inspector(page).waitFor({ state: 'hidden' });
    expect(page.url()).to.equal(`${tasks}/`);

    await goTo(page, id);
    await inspector(page).getByRole('button', { name: 'Edit and resubmit' }).click();
    await inspector(page).waitFor({ state: 'hidden' });
    expect(JSON.parse(await page.locator('#json').inputValue())).to.deep.equal({ text: 'hello' });
    expect(await page.locator('#choice').inputValue()).to.equal('echo');
    const difference = part(page, 'difference');
    expect(await difference.textContent()).to.equal('The same as the original task.');
    await page.locator('#json').fill('{"text": "bye", "more": null}');
    await page.getByText('Differs from the original task in /data/text, /data/more.').waitFor();
    await page.getByRole('button', { name: 'Queue task' }).click();
    await difference.waitFor({ state: 'detached' });

    const data = { text: 'x'.repeat(50_000) };
    await goTo(page, await submit({ action: 'echo', data }));
    await state(page, 'completed');
    const payload = part(page, 'payload-text');
    expect(await text('payload-text')).to.have.length(20_001);
    await payload.getByText('JSON text').click();
    await inspector(page).getByRole('button', { name: 'Copy the payload' }).click();
    await payload.getByText('Copied').waitFor();
    expect(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())).data).to.deep.equal(data);
    await payload.getByRole('button', { name: /^Show all/ }).click();
    expect((await json('payload-text')).data).to.deep.equal(data);

    await goTo(page, await submit({ action: 'tires' }));
    await state(page, 'failed');
    const attempts = await steps(page);
    expect(attempts).to.have.length(7);
    expect(attempts[1]).to.match(/^Attempt 1 failed [\d:.]{12} .*started [\d:.]{12}, took (< 1|[\d.]+) m?s try again$/);
    expect(attempts[5]).to.match(/^Attempt 5 failed .* \+.* m?s started .*, took .* m?s try again$/);
    expect(attempts[6]).to.match(/^Failed, no attempts left/);
    const redriven = page.waitForResponse((response) => response.url().endsWith('/redrive'));
    await inspector(page).getByRole('button', { name: 'Redrive' }).click();
    expect((await (await redriven).json()).count).to.equal(1);
    await state(page, 'failed');

    await goTo(page, await submit(breaks('always broken')));
    await page.getByText('This error is permanent: after a redrive the task fails again').waitFor();
    expect((await steps(page)).at(-1)).to.match(/^Failed permanently/);

    await goTo(page, await submit({ action: 'crashes' }));
    const stack = part(page, 'step-stack').filter({ hasText: 'TypeError' }).first();
    expect(await stack.textContent()).to.match(/^TypeError\n {4}at .*handlers\.ts:\d+:\d+/);

    await goTo(page, await submit({ action: 'late' }));
    const cancel = async () => {
      const answered = page.waitForResponse((response) => response.request().method() === 'DELETE');
      await inspector(page).getByRole('button', { name: 'Cancel' }).click();
      return (await answered).status();
    };
    await state(page, 'retrying');
    const countdown = page.locator('.step').last().locator('[data-part="step-live"]');
    expect(await countdown.textContent()).to.match(/^in \d\d s$/);
    expect(await cancel()).to.equal(204);
    await state(page, 'cancelled');
    expect((await steps(page)).at(-1)).to.match(/^Cancelled/);
    expect(await part(page, 'inspector-error').textContent()).to.equal('');

    await goTo(page, await submit({ action: 'import' }));
    await state(page, 'running');
    await inspector(page).getByText('25 %').waitFor();
    await inspector(page).getByText('row 256 of 1000').waitFor();
    expect((await steps(page)).at(-1)).to.match(/^Attempt 1 started for (< )?\d/);
    expect(await cancel()).to.equal(202);
    await state(page, 'cancelled');
    await inspector(page).getByRole('progressbar').waitFor({ state: 'detached' });

    await goTo(page, 'nobody');
    await page.getByText('No task has this id.').waitFor();
  });
});
