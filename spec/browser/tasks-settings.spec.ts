import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { post, request } from '../support/program.ts';
import { describeInBrowser, part, partShows, visit } from './chromium.ts';
import { fill, partsShow, rows, startWithHandlers, tab } from './task-rows.ts';

const HANDLERS = `
export default { report: { limits: { concurrency: 2 }, handler: () => 'reported' } };
export const schedules = { nightly: { cron: '0 3 * * *', action: 'report' } };
`;

describeInBrowser('schedules and limits on the board', () => {
  const services = onceForSuite(() => {
    const callbacks = { CALLBACK_HOSTS: 'example.org', CALLBACK_SECRET: `whsec_${'A'.repeat(32)}` };
    return startWithHandlers(HANDLERS, { ...callbacks, TASK_UNKNOWN_ACTIONS: 'process' });
  });
  const find = async (path: string) => (await request(`${services().tasks}${path}`)).body;

  it('list tasks by what they wait for, and are made, paused, run, edited and deleted, with errors at their fields, unless they are those of the handlers module', async () => {
    const { tasks } = services();
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
    for (const priority of [3, 3, 1]) {
      await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1] }, limit_key: 'acme', priority });
    }
    await tab(page, 'Limited').click();
    await rows(page).nth(1).waitFor();
    await partsShow(page, { 'count-limited': '2', 'count-queued': '0' });
    for (const reason of [/sum: next start .*\d\d:\d\d:\d\d/, 'acme: 0 of 1 running, the rest reserved'])
      await rows(page).filter({ hasText: reason }).waitFor();
    await rows(page).filter({ hasText: 'priority 1' }).locator('.task-name').click();
    await dialog.getByText(/^Waiting for the limit of (acme|sum): /).waitFor();
    await partShows(page, 'inspector-state', 'limited');
    expect(await part(page, 'facts').locator('dd').allTextContents()).to.deep.equal(['1', 'acme']);
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
    await limits.getByRole('button', { name: 'Edit' }).click();
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
