import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { request } from '../support/program.ts';
import { describeInBrowser, part, partShows, visit } from './chromium.ts';
import { startWithHandlers } from './task-rows.ts';

const HANDLERS = `
export default { report: { limits: { concurrency: 2 }, handler: () => 'reported' } };
export const schedules = { nightly: { cron: '0 3 * * *', action: 'report' } };
`;

describeInBrowser('schedules and limits on the board', () => {
  const services = onceForSuite(() => {
    const callbacks = { CALLBACK_HOSTS: 'example.org', CALLBACK_SECRET: `whsec_${'A'.repeat(32)}` };
    return startWithHandlers(HANDLERS, callbacks);
  });
  const find = async (path: string) => (await request(`${services().tasks}${path}`)).body;

  it('are made, paused, run, edited and deleted, with errors at their fields; those of the handlers module are edited there; a task leads to its schedule', async () => {
    await visit(services().tasks, { tolerated: /status of 40/ }, async (page) => {
      await page.getByRole('link', { name: 'Schedules' }).click();
      await page.waitForURL(/\?view=schedules$/);
      await page.getByRole('button', { name: 'New schedule' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.getByText('Enter a name.').waitFor();
      await dialog.getByLabel('Name').fill('weekly');
      await dialog.getByLabel('Cron expression').fill('61 3 * * MON');
      await dialog.getByLabel('Time zone').fill('Europe/Berlin');
      await dialog.getByLabel('Action').fill('report');
      await dialog.getByLabel('Data').fill('{');
      await page.keyboard.press('Tab');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.locator('.field', { hasText: 'Data' }).locator('.field-error', { hasText: 'JSON' }).waitFor();
      await dialog.getByLabel('Data').fill('{"kind": "weekly"}');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.locator('.field', { hasText: 'Cron' }).locator('.field-error', { hasText: 'minute: 61' }).waitFor();
      expect(await dialog.getByLabel('Cron expression').getAttribute('aria-invalid')).to.equal('true');
      await dialog.getByLabel('Cron expression').fill('0 3 * * MON');
      await dialog.getByLabel('Priority').selectOption('1');
      await dialog.getByLabel('Callback URL').fill('https://example.org/done');
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
      const status = part(page, 'settings-status').first();
      await status.getByRole('link').click();
      const inspector = page.getByRole('dialog', { name: 'report' });
      await partShows(page, 'inspector-state', 'completed');
      await inspector.getByRole('button', { name: 'Close the task' }).click();

      await row.getByRole('button', { name: 'Edit' }).click();
      expect(await dialog.getByLabel('Name').isEditable()).to.equal(false);
      await dialog.getByLabel('Limit key').fill('acme');
      await dialog.getByLabel('Missed times').selectOption('all');
      await dialog.getByLabel('While a task is unfinished').selectOption('skip');
      await dialog.getByRole('button', { name: 'Save' }).click();
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

      const { tasks } = services();
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
      await dialog.getByLabel('Action').fill('sum');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await part(page, 'edit-error').getByText('needs concurrency').waitFor();
      await dialog.getByLabel('Starts', { exact: true }).fill('0');
      await dialog.getByLabel('Period in seconds').fill('60');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.locator('.field', { hasText: 'Starts' }).getByText('must be a whole number').waitFor();
      await dialog.getByLabel('Starts', { exact: true }).fill('100');
      await dialog.getByLabel('Tasks of each key at once').fill('5');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await limits.getByText('100 in 60 s').waitFor();
      await limits.getByText('5 at once per key').waitFor();
      await limits.getByRole('button', { name: 'Edit' }).click();
      await dialog.getByLabel('Starts', { exact: true }).fill('');
      await dialog.getByLabel('Period in seconds').fill('');
      await dialog.getByLabel('Tasks at once').fill('2000');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await limits.getByText('0 of 2,000 running').waitFor();
      await limits.getByText('2,000 at once').waitFor();
      await limits.getByRole('button', { name: 'Delete' }).click();
      await dialog.getByRole('button', { name: 'Delete' }).click();
      await limits.waitFor({ state: 'detached' });
      const report = page.locator('.setting[data-name="report"]');
      await report.getByText('From the handlers module, until you edit it here.').waitFor();
      expect(await report.getByRole('button').allTextContents()).to.deep.equal(['Edit']);
    });
  });
});
