import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { curlArguments } from '../support/command.ts';
import { post, request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { changes, countRequests, part, partShows, reaches } from './page.ts';
import { fill, ownTask, partsShow, queueButton, row, rows, startWithHandlers, tab, texts } from './task-rows.ts';

const HANDLERS = `
import { existsSync } from 'node:fs';
const schema = {
  title: 'Resize a picture', description: 'Returns its new size.', type: 'object', required: ['width', 'crops'], additionalProperties: false,
  properties: {
    quality: { type: 'integer', minimum: 1, maximum: 100, default: 80, title: 'Quality', description: 'of the JPEG' },
    width: { type: 'integer', minimum: 1, examples: [640] },
    crops: { type: 'array', items: { type: 'integer' } },
  },
};
export default {
  resize: { handler: ({ width }) => width * 2, schema },
  report: { limits: { concurrency: 2 }, handler: () => 'reported' },
  declined() { throw new PermanentError('card declined'); },
  found({ path }) {
    if (!existsSync(path)) throw new PermanentError('no such file');
    return 'found';
  },
  soon: { maxAttempts: 2, handler: () => { throw new RetryAfter(90_000, 'a little later'); } },
  steps: async (_, { signal, progress }) => {
    for (let step = 0; !signal.aborted; step++) {
      progress(1 - 1 / (step + 1), 'step ' + step);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    throw signal.reason;
  },
  stubborn: () => new Promise(() => {}),
};
export const schedules = { nightly: { cron: '0 3 * * *', action: 'report' } };`;

const actionChoice = (page: Page) => page.getByLabel('Action', { exact: true }).and(page.locator('select'));

async function yields(page: Page, output: string): Promise<void> {
  await queueButton(page).click();
  await page.locator('.own-output', { hasText: output }).waitFor();
}

async function enter(page: Page, form: 'uppercase' | 'sum' | 'other', fields: Record<string, string>): Promise<void> {
  await page.getByLabel(form).check();
  await fill(page, fields);
}

async function openForm(page: Page): Promise<void> {
  await reaches(page, 'live');
  await page.getByLabel('other').check();
  await actionChoice(page).waitFor();
}

async function queue(page: Page, action: string, json = '{}'): Promise<void> {
  await openForm(page);
  await actionChoice(page).selectOption(action);
  await page.locator('#json').fill(json);
  await queueButton(page).click();
}

describeInBrowser('the form of the task board', () => {
  it('takes tasks of each form to their rows, gives the request as a curl command, and says why input is invalid or a task is refused or failed', async () => {
    const { tasks } = await startServices({ env: { BODY_LIMIT: '1000' } });
    const page = await visit(tasks, { tolerated: /status of 413/ });
    await post(`${tasks}/tasks`, { action: 'first' });
    await row(page, 'first').waitFor();
    await page.getByRole('button', { name: 'Pause list' }).click();
    const listed = await rows(page).count();
    await page.getByLabel('Text').fill('größer <b>');
    await queueButton(page).click();
    await ownTask(page, 'completed').waitFor();
    expect(await ownTask(page, 'completed').locator('.own-output').textContent()).to.equal('GRÖSSER <B>');
    expect(await ownTask(page, 'completed').textContent()).to.match(/completed\s+after (< )?\d+(\.\d+)? m?s/);
    expect(await rows(page).count()).to.equal(listed);
    await page.getByRole('button', { name: 'Resume list' }).click();
    await row(page, 'uppercase').filter({ hasText: '{"text":"größer <b>"}' }).waitFor();
    const cells = await texts(row(page, 'uppercase').locator('th, td'));
    expect(cells).to.include('GRÖSSER <B>');
    expect(cells.at(-1)).to.match(/^\d\d:\d\d:\d\d$/);
    expect(cells.at(-2), 'how long it ran').to.match(/^(< )?\d[\d.]* m?s$/);

    await enter(page, 'sum', { Numbers: '1, 2.5; -3e2\n4' });
    await yields(page, '-292.5');
    await enter(page, 'other', { Data: '{"width": 640}' });
    await page.locator('#action').fill('resize');
    await yields(page, 'processed');
    await row(page, 'resize').waitFor();
    const actions = await rows(page).locator('.task-name').allTextContents();
    expect(actions.slice(0, 2)).to.deep.equal(['resize', 'sum']);

    const text = `it's "quoted" $HOME \\n ü`;
    await enter(page, 'uppercase', { Text: text });
    await page.locator('.request').getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    const [url, flag, body] = curlArguments(command);
    expect([url, flag]).to.deep.equal([`${tasks}/tasks`, '-d']);
    expect(JSON.parse(body ?? '')).to.deep.equal({ action: 'uppercase', data: { text } });

    const submissions = countRequests(page, /\/tasks$/);
    const refusal = async (message: string) => {
      await queueButton(page).click();
      await page.locator('.field-error', { hasText: message }).waitFor();
      expect(await page.locator(':focus').getAttribute('aria-invalid')).to.equal('true');
    };
    await enter(page, 'sum', { Numbers: '1, two' });
    await refusal('“two” is not a number.');
    await page.getByLabel('other').check();
    await page.locator('#action').fill('');
    await refusal('Give the action a name.');
    await page.locator('#action').fill('x');
    await enter(page, 'other', { Data: '{x' });
    await refusal('not JSON');
    expect(submissions()).to.equal(0);

    await enter(page, 'uppercase', { Text: 'x'.repeat(1_000) });
    await queueButton(page).click();
    await page.getByRole('alert').filter({ hasText: 'request body too large' }).waitFor();
    expect(await page.locator('.own-task').count()).to.equal(3);
    await enter(page, 'sum', { Numbers: '1e308 1e308' });
    await queueButton(page).click();
    await ownTask(page, 'failed').waitFor();
    expect(await ownTask(page, 'failed').textContent()).to.include('the sum of data.numbers is too large');
    expect(await part(page, 'own-status').textContent()).to.match(/^Failed sum: the sum/);
  });
});

describeInBrowser('the form with a handlers module', () => {
  const env = { TASK_UNKNOWN_ACTIONS: 'process', TASK_CANCEL_GRACE_MS: '6000' };
  const services = onceForSuite(() => startWithHandlers(HANDLERS, env));

  it('offers the actions with templates and fields of their data, keeps their texts over a reload, and shows what the service refuses', async () => {
    const page = await visit(services().tasks, { tolerated: /status of 400/ });
    await openForm(page);
    const actions = ['resize', 'report', 'declined', 'found', 'soon', 'steps', 'stubborn', 'another action'];
    expect(await actionChoice(page).locator('option').allTextContents()).to.deep.equal(actions);
    const template = JSON.stringify({ width: 640, crops: [], quality: 80 }, null, 2);
    expect(await page.locator('#json').inputValue()).to.equal(template);
    expect(await page.locator('#choice-hint').textContent()).to.equal('Resize a picture: Returns its new size.');
    const fields = await texts(page.locator('.data-field'));
    expect(fields[2]).to.equal('quality integer, 1 to 100 Quality: of the JPEG');
    await yields(page, '1280');

    await page.locator('#json').fill('{"width": 7, "crops": []}');
    await actionChoice(page).selectOption('report');
    expect(await page.locator('#json').inputValue()).to.equal('{}');
    expect(await page.locator('.data-field').count()).to.equal(0);
    await yields(page, 'reported');
    await actionChoice(page).selectOption('another action');
    await page.getByLabel('Name of the action').fill('anything');
    expect(await part(page, 'curl').first().textContent()).to.include('"action":"anything"');
    await yields(page, 'processed');
    await actionChoice(page).selectOption('resize');
    await yields(page, '14');
    await page.reload();
    await actionChoice(page).waitFor();
    await yields(page, '14');

    for (const [data, message, wrong, field] of [
      ['{"width": 5, "crops": [1, "x"]}', 'invalid data: /crops/1 must be integer', '"x"', 'crops'],
      ['{"crops": []}', 'invalid data: /width must be present', '{"crops": []}', 'width'],
    ] as const) {
      await page.locator('#json').fill(data);
      expect(await page.locator('[data-wrong]').count()).to.equal(0);
      await queueButton(page).click();
      await page.getByRole('alert').filter({ hasText: message }).waitFor();
      expect(await page.locator(':focus').getAttribute('aria-invalid')).to.equal('true');
      expect(await page.evaluate(() => `${getSelection()}`)).to.equal(wrong);
      expect(await page.locator('[data-wrong] code').textContent()).to.equal(field);
    }

    const offers = async (actions: object[], kinds: string) => {
      await page.route('**/actions', (route) => route.fulfill({ json: { actions, unknown_actions: 'reject' } }));
      await page.reload();
      await until(async () => (await texts(page.locator('form .choice label'))).join() === kinds);
    };
    await offers([{ name: 'uppercase' }, { name: 'sum', schema: {} }], 'uppercase,other');
    await page.getByLabel('other').check();
    expect(await page.locator('#choice option').allTextContents()).to.deep.equal(['sum']);
    await offers([{ name: 'uppercase' }, { name: 'sum' }], 'uppercase,sum');
    expect(await page.locator('#choice option').count()).to.equal(0);
  });

  it('follows by events what becomes of each of its tasks, and offers to cancel, try again or edit it as long as that has an effect', async () => {
    const { tasks } = services();
    // A request for a task that is being cancelled may be answered with 404, and one for a finished one with 409.
    const page = await visit(tasks, { tolerated: /status of 40[49]/ });
    const cancelButton = page.getByRole('button', { name: 'Cancel' });
    const cancelled = (action: string) => ownTask(page, 'cancelled').filter({ hasText: action });
    const cancel = async () => {
      const answer = page.waitForResponse((response) => response.request().method() === 'DELETE');
      await cancelButton.press('Enter');
      return (await answer).status();
    };
    const requests = countRequests(page, /\/tasks\/(search\?|[\da-f-]{36}$)/);
    await queue(page, 'steps');
    // An answer shows at most one note, so the others came from events.
    const notes = new Set<string | null>();
    const note = part(page, 'progress-note');
    await until(async () => notes.add(await note.textContent()).size - requests() >= 8);
    await ownTask(page, 'running')
      .getByText(/^\d\d %$/)
      .waitFor();
    const progress = page.getByRole('progressbar', { name: 'Progress of steps' });
    expect(Number(await progress.getAttribute('value'))).to.be.within(0.8, 1);
    expect(await cancel()).to.equal(202);
    await cancelled('steps').waitFor();
    await partShows(page, 'own-status', 'Cancelled steps');
    expect(await page.getByRole('progressbar').count()).to.equal(0);
    expect(await cancelButton.count()).to.equal(0);

    await queue(page, 'soon');
    await ownTask(page, 'retrying').waitFor();
    expect(await cancel()).to.equal(204);
    await cancelled('soon').waitFor();
    expect(await page.locator(':focus').textContent()).to.match(/soon\s+cancelled/);
    await queue(page, 'stubborn');
    await ownTask(page, 'running').waitFor();
    expect(await cancel()).to.equal(202);
    await page.locator('.own-state', { hasText: 'cancelling' }).waitFor();
    expect(await cancelButton.getAttribute('aria-disabled')).to.equal('true');
    await cancelled('stubborn').waitFor();

    await queue(page, 'soon');
    await ownTask(page, 'retrying').waitFor();
    const id = await ownTask(page, 'retrying').getAttribute('data-id');
    // The page asks for the task before its cancellation, and is answered with 404 after the event that reports it.
    const isTold = Promise.withResolvers<void>();
    await page.route(`**/tasks/${id}`, (route) => isTold.promise.then(() => route.continue()));
    await page.waitForRequest(`**/tasks/${id}`);
    expect((await fetch(`${tasks}/tasks/${id}`, { method: 'DELETE' })).status).to.equal(204);
    await cancelled('soon').nth(1).waitFor();
    isTold.resolve();
    await page.waitForResponse(`**/tasks/${id}`);

    // Until the service has refused the cancellation, the page does not learn of the end.
    let isRefused = false;
    page.on('response', (response) => {
      isRefused ||= response.status() === 409;
    });
    await page.route(/\/tasks\/[0-9a-f-]{36}$/, (route) => {
      if (isRefused || route.request().method() === 'DELETE') return route.continue();
      return route.fulfill({ json: { status: 'queued' } });
    });
    await page.getByLabel('uppercase').check();
    await queueButton(page).click();
    await page.locator('.task-row', { hasText: 'uppercase' }).waitFor();
    await cancelButton.click();
    await ownTask(page, 'completed').waitFor();
    expect([isRefused, await cancelled('soon').count()]).to.deep.equal([true, 2]);
    expect(await part(page, 'toast').isVisible(), 'a finished task is no error').to.equal(false);

    await queue(page, 'declined', '{"amount": 12}');
    await ownTask(page, 'failed').filter({ hasText: 'card declined' }).waitFor();
    expect(await page.getByRole('button', { name: 'Try again' }).count()).to.equal(0);
    await page.getByLabel('uppercase').check();
    await page.getByRole('button', { name: 'Edit and resubmit' }).click();
    expect(await page.locator('input[name="kind"]:checked').inputValue()).to.equal('other');
    expect(await page.locator('#choice').inputValue()).to.equal('declined');
    expect(await part(page, 'curl').textContent()).to.include('"amount":12');

    const path = join(await temporaryFolder(), 'file');
    await queue(page, 'found', JSON.stringify({ path }));
    const missing = ownTask(page, 'failed').filter({ hasText: 'no such file' });
    await missing.waitFor();
    await writeFile(path, '');
    await post(`${tasks}/dead-letters/${await missing.getAttribute('data-id')}/retry`, {});
    await ownTask(page, 'completed').filter({ hasText: 'found' }).waitFor();

    await queue(page, 'soon');
    const retrying = ownTask(page, 'retrying').filter({ hasText: 'a little later' });
    await retrying.waitFor();
    const state = () => retrying.locator('[data-part="state"]').textContent();
    const first = await state();
    expect(first).to.match(/^again in \d\d s$/);
    await changes(state, first);
    await post(`${tasks}/tasks/${await retrying.getAttribute('data-id')}/run`, {});
    await ownTask(page, 'failed').filter({ hasText: 'soon' }).waitFor();
    await page.route('**/redrive', (route) => route.fulfill({ json: { count: 0, remaining: 0 } }), { times: 1 });
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Not redriven: the service no longer has this task among the failed ones.').waitFor();
    const redriven = page.waitForResponse((response) => response.url().endsWith('/redrive'));
    await page.getByRole('button', { name: 'Try again' }).click();
    expect((await (await redriven).json()).count).to.equal(1);
    await retrying.waitFor();
  });
});

describeInBrowser('schedules and limits on the board', () => {
  it('list the tasks that wait for them, and can be changed, with errors at their fields, unless the handlers module has them', async () => {
    const callbacks = { CALLBACK_HOSTS: 'example.org', CALLBACK_SECRET: `whsec_${'A'.repeat(32)}` };
    const { tasks } = await startWithHandlers(HANDLERS, { ...callbacks, TASK_UNKNOWN_ACTIONS: 'process' });
    const find = async (path: string) => (await request(`${tasks}${path}`)).body;
    const schedule = (action: string, delay: number) => post(`${tasks}/tasks`, { action, delay, priority: 1 });
    await schedule('next week', 604_800);
    await schedule('next hour', 3_600);
    const page = await visit(`${tasks}/?state=scheduled`, { tolerated: /status of 40/ });
    await rows(page).nth(1).waitFor();
    expect(await rows(page).first().locator('[data-part="time"]').textContent()).to.match(/^in (59|60) min/);
    await partsShow(page, { 'count-scheduled': '2' });
    await schedule('tomorrow', 86_400);
    await rows(page).nth(2).waitFor();
    const names = await rows(page).locator('.task-name').allTextContents();
    expect(names).to.deep.equal(['next hour', 'tomorrow', 'next week']);

    await rows(page).first().locator('.task-name').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Due, priority 1').waitFor();
    await dialog.getByRole('button', { name: 'Run now' }).click();
    await partShows(page, 'inspector-state', 'completed');
    expect(await dialog.getByRole('button', { name: 'Run now' }).isVisible()).to.equal(false);
    await partsShow(page, { 'count-scheduled': '2' });

    await page.keyboard.press('Escape');
    const limit = { rate: { count: 1, seconds: 86_400 }, per_key: { concurrency: 1 } };
    await request(`${tasks}/limits/sum`, { method: 'PUT', body: JSON.stringify(limit) });
    for (const priority of [3, 3, 1])
      await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1] }, limit_key: 'acme', priority });
    await tab(page, 'Limited').click();
    await rows(page).nth(1).waitFor();
    await partsShow(page, { 'count-limited': '2', 'count-queued': '0' });
    for (const reason of [/sum: next start .*\d\d:\d\d:\d\d/, 'acme: 0 of 1 running, the rest reserved'])
      await rows(page).filter({ hasText: reason }).waitFor();
    await rows(page).filter({ hasText: 'priority 1' }).locator('.task-name').click();
    await dialog.getByText(/^Waiting for the limit of (acme|sum): /).waitFor();
    await partShows(page, 'inspector-state', 'limited');
    await page.mouse.move(0, 0);
    await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1] } });
    await rows(page).nth(2).waitFor();
    await request(`${tasks}/limits/sum`, { method: 'DELETE' });
    await partShows(page, 'inspector-state', 'completed');
    await page.keyboard.press('Escape');
    await page.getByText('No task waits for a limit.').waitFor();

    await page.getByRole('link', { name: 'Schedules' }).click();
    await page.waitForURL(/\?view=schedules$/);
    await page.getByRole('button', { name: 'New schedule' }).click();
    const save = async (fields: Record<string, string>) => {
      await fill(dialog, fields);
      await dialog.getByRole('button', { name: 'Save' }).click();
    };
    const isRefused = (field: string, message: string) =>
      dialog.locator('.field', { hasText: field }).locator('.field-error', { hasText: message }).waitFor();
    await save({});
    await isRefused('Name', 'Enter a name.');
    const cron = { 'Cron expression': '61 3 * * MON', 'Time zone': 'Europe/Berlin' };
    await save({ Name: 'weekly', ...cron, Action: 'report', Data: '{' });
    await isRefused('Data', 'JSON');
    await save({ Data: '{"kind": "weekly"}' });
    await isRefused('Cron', 'minute: 61');
    expect(await dialog.getByLabel('Cron expression').getAttribute('aria-invalid')).to.equal('true');
    await dialog.getByLabel('Priority').selectOption('1');
    await fill(dialog, { 'Cron expression': '0 3 * * MON', 'Callback URL': 'https://example.org/done' });
    await page.keyboard.press('Enter');
    const row = page.locator('.setting[data-name="weekly"]');
    await row.waitFor();
    expect(await find('/schedules/weekly')).to.deep.include({ data: { kind: 'weekly' }, priority: 1, paused: false });
    await row.getByText('Next').click();
    expect(await part(page, 'later').last().locator('time').count()).to.equal(4);

    await row.getByLabel('Active').uncheck();
    await row.getByText('Paused', { exact: true }).waitFor();
    expect(await find('/schedules/weekly')).to.include({ paused: true, priority: 1 });
    await row.getByRole('button', { name: 'Run now' }).click();
    await part(page, 'settings-status').first().getByRole('link').click();
    await partShows(page, 'inspector-state', 'completed');
    await dialog.getByRole('button', { name: 'Close the task' }).click();

    await row.getByRole('button', { name: 'Edit' }).click();
    expect(await dialog.getByLabel('Name').isEditable()).to.equal(false);
    await dialog.getByLabel('Missed times').selectOption('all');
    await dialog.getByLabel('While a task is unfinished').selectOption('skip');
    await save({ 'Limit key': 'acme' });
    const settings = 'priority 1, key acme, all missed times run, skips a time while a task is unfinished';
    await row.getByText(settings).waitFor();
    expect(await find('/schedules/weekly')).to.include({ callback_url: 'https://example.org/done' });
    await row.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Keep' }).click();
    await row.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await row.waitFor({ state: 'detached' });
    expect((await find('/schedules')).count).to.equal(1);
    expect(await page.evaluate(() => document.activeElement?.textContent)).to.equal('New schedule');

    await request(`${tasks}/queue/pause`, { method: 'POST' });
    const { id } = (await request(`${tasks}/schedules/nightly/run`, { method: 'POST' })).body;
    await page.goto(`${tasks}/?task=${id}`);
    await part(page, 'facts').getByRole('link', { name: 'nightly' }).click();
    await page.waitForURL(`${tasks}/?view=schedules&q=nightly`);
    const own = page.locator('.setting');
    await own.getByText('From the handlers module. Edit it there.').waitFor();
    expect(await own.count()).to.equal(1);
    expect(await own.getByRole('button').allTextContents()).to.deep.equal(['Run now']);
    expect(await own.getByLabel('Active').isDisabled()).to.equal(true);
    await own.getByRole('button', { name: 'Run now' }).click();
    await part(page, 'settings-status').first().getByText('Queued a task of nightly').waitFor();
    await page.locator('#find').fill('nowhere');
    await own.waitFor({ state: 'detached' });
    await page.locator('#find').blur();
    await page.keyboard.press('1');
    await page.waitForURL(`${tasks}/?state=scheduled`);
    expect(await part(page, 'schedules').isVisible()).to.equal(false);

    await page.getByRole('link', { name: 'Limits' }).click();
    await page.waitForURL(`${tasks}/?view=limits`);
    const limits = page.locator('.setting[data-name="sum"]');
    await page.getByRole('button', { name: 'New limits' }).click();
    await save({ Action: 'sum' });
    await part(page, 'edit-error').getByText('needs concurrency').waitFor();
    await save({ Starts: '0', 'Period in seconds': '60' });
    await isRefused('Starts', 'must be a whole number');
    await save({ Starts: '100', 'Tasks of each key at once': '5' });
    for (const text of ['100 in 60 s', '5 at once per key']) await limits.getByText(text).waitFor();
    const edit = limits.getByRole('button', { name: 'Edit' });
    const focused = await edit.evaluate(async (button: HTMLElement) => {
      button.click();
      await Promise.resolve();
      return document.activeElement?.getAttribute('name');
    });
    expect(focused, 'before the next frame, because the user may type').to.equal('concurrency');
    await save({ Starts: '', 'Period in seconds': '', 'Tasks at once': '2000' });
    for (const text of ['0 of 2,000 running', '2,000 at once']) await limits.getByText(text).waitFor();
    await limits.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await limits.waitFor({ state: 'detached' });
    const report = page.locator('.setting[data-name="report"]');
    await report.getByText('From the handlers module, until you edit it here.').waitFor();
    expect(await report.getByRole('button').allTextContents()).to.deep.equal(['Edit']);
  });
});
