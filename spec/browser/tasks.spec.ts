import { execFileSync } from 'node:child_process';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { afterTest, onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { describeInBrowser, part, reaches, visit } from './chromium.ts';

const queueButton = (page: Page) => page.getByRole('button', { name: 'Queue task' });
const ownTask = (page: Page, state: string) => page.locator(`.own-task[data-state="${state}"]`);
const items = (page: Page) => page.locator('.task-item');
const item = (page: Page, action: string) =>
  items(page).filter({ has: page.locator('.task-action', { hasText: new RegExp(`^${action}$`) }) });

/** Longest accepted request body in bytes. */
const BODY_LIMIT = 1_000;

describeInBrowser('the task board', () => {
  /** Services whose listing holds the tasks of other tests too. */
  const services = onceForSuite(() => startServices({ env: { BODY_LIMIT: String(BODY_LIMIT) } }));

  it('takes a task from the form to its completed row, which is listed once the board is not paused', async () => {
    const { tasks } = await startServices();
    await visit(tasks, {}, async (page) => {
      await page.getByText('No stored task yet').waitFor();
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.getByLabel('Text').fill('größer <b>');
      await queueButton(page).click();
      await ownTask(page, 'completed').waitFor();
      expect(await ownTask(page, 'completed').locator('.own-output').textContent()).to.equal('GRÖSSER <B>');
      expect(await ownTask(page, 'completed').textContent()).to.match(/completed\s+after \d+(\.\d+)? s/);
      expect(await items(page).count()).to.equal(0);
      await page.getByRole('button', { name: 'Resume' }).click();
      await items(page).waitFor();
      await items(page).locator('summary').click();
      const detail = (name: string) => items(page).locator(`[data-part="${name}"]`).textContent();
      expect(JSON.parse((await detail('payload')) ?? '')).to.deep.include({
        action: 'uppercase',
        data: { text: 'größer <b>' },
      });
      expect(JSON.parse((await detail('result')) ?? '')).to.deep.equal({ output: 'GRÖSSER <B>' });
      expect(await detail('status')).to.equal('completed');
      expect(await detail('took')).to.match(/^(under|about) \d+ s$/);
    });
  });

  it('shows what others queue as it happens, without asking again and again', async () => {
    const { tasks } = services();
    let listings = 0;
    const prepare = async (page: Page) => {
      page.on('request', (request) => {
        if (request.url() === `${tasks}/tasks`) listings += 1;
      });
    };
    await visit(tasks, { prepare }, async (page) => {
      const following = page.waitForResponse((response) => response.url().endsWith('/tasks/events'));
      await reaches(page, 'live');
      expect((await following).status()).to.equal(200);
      for (const action of ['one', 'two', 'three']) {
        await post(`${tasks}/tasks`, { action });
        await item(page, action).waitFor();
      }
      // One or two listings per task, and the initial ones.
      expect(listings).to.be.within(4, 10);
    });
  });

  it('polls when the event stream is unavailable', async () => {
    const { tasks } = services();
    const prepare = (page: Page) => page.route('**/tasks/events', (route) => route.fulfill({ status: 503 }));
    await visit(tasks, { prepare, tolerated: /status of 503/ }, async (page) => {
      await reaches(page, 'live');
      await post(`${tasks}/tasks`, { action: 'polled' });
      await item(page, 'polled').waitFor();
      await queueButton(page).click();
      await ownTask(page, 'completed').waitFor();
    });
  });

  it('has forms for sum and for any other action', async () => {
    const { tasks } = services();
    await visit(tasks, {}, async (page) => {
      await page.getByLabel('sum').check();
      await page.getByLabel('Numbers').fill('1, 2.5; -3e2\n4');
      await queueButton(page).click();
      await page.locator('.own-output', { hasText: '-292.5' }).waitFor();
      await page.getByLabel('other').check();
      await page.getByLabel('Action', { exact: true }).last().fill('resize');
      await page.getByLabel('Data').fill('{"width": 640}');
      await queueButton(page).click();
      await page.locator('.own-output', { hasText: 'processed' }).waitFor();
      await item(page, 'resize').waitFor();
      expect((await items(page).locator('.task-action').allTextContents()).slice(0, 2)).to.deep.equal([
        'resize',
        'sum',
      ]);
    });
  });

  it('gives the request as a curl command, and names the problem of invalid input instead of submitting it', async () => {
    const { tasks } = services();
    await visit(tasks, {}, async (page) => {
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: tasks });
      await page.getByLabel('Text').fill(`it's "quoted" $HOME \\n ü`);
      await part(page, 'copy-curl').first().click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      const command = await page.evaluate(() => navigator.clipboard.readText());
      // curl may not be installed, so a shell function prints the arguments that curl would receive.
      const shown = execFileSync('sh', ['-c', `curl() { printf '%s\\0' "$@"; }; ${command}`], { encoding: 'utf8' });
      const [url, flag, body] = shown.split('\0');
      expect([url, flag]).to.deep.equal([`${tasks}/tasks`, '-d']);
      expect(JSON.parse(body ?? '')).to.deep.equal({
        action: 'uppercase',
        data: { text: `it's "quoted" $HOME \\n ü` },
      });

      let sent = 0;
      page.on('request', (request) => {
        if (request.method() === 'POST') sent++;
      });
      const refusal = async (message: string) => {
        await queueButton(page).click();
        await page.locator('.field-error', { hasText: message }).waitFor();
        const field = page.locator(':focus');
        expect(await field.getAttribute('aria-invalid')).to.equal('true');
      };
      await page.getByLabel('sum').check();
      await page.getByLabel('Numbers').fill('1, two');
      await refusal('“two” is not a number.');
      await page.getByLabel('other').check();
      await refusal('Give the action a name.');
      await page.locator('#action').fill('x');
      for (const [data, message] of Object.entries({ '{x': 'not JSON', '[1]': 'JSON object', null: 'JSON object' })) {
        await page.getByLabel('Data').fill(data);
        await refusal(message);
      }
      expect(sent).to.equal(0);
    });
  });

  it('says why a task is refused or failed, in the words of the service, and tries it again on request', async () => {
    const { tasks } = services();
    await visit(tasks, { tolerated: /status of 413/ }, async (page) => {
      await page.getByLabel('Text').fill('x'.repeat(BODY_LIMIT));
      await queueButton(page).click();
      await page.getByRole('alert').filter({ hasText: 'request body too large' }).waitFor();
      expect(await page.locator('.own-task').count()).to.equal(0);
      await page.getByLabel('Text').fill('short');
      await queueButton(page).click();
      await ownTask(page, 'completed').waitFor();

      await page.getByLabel('sum').check();
      await page.getByLabel('Numbers').fill('1e308 1e308');
      await queueButton(page).click();
      await ownTask(page, 'failed').waitFor();
      expect(await ownTask(page, 'failed').textContent()).to.include('the sum of data.numbers is too large');
      expect(await part(page, 'own-status').textContent()).to.match(/^Failed sum: the sum/);
      const retried = page.waitForResponse((response) => response.url().endsWith('/retry'));
      await page.getByRole('button', { name: 'Try again' }).click();
      expect((await retried).status()).to.equal(202);
      await ownTask(page, 'failed').waitFor();
      expect(await ownTask(page, 'failed').count()).to.equal(1);
    });
  });

  it('keeps an inspected task open, and the focus in place, while other tasks arrive', async () => {
    const { tasks } = services();
    await post(`${tasks}/tasks`, { action: 'first' });
    await visit(tasks, {}, async (page) => {
      await item(page, 'first').locator('summary').focus();
      await page.keyboard.press('Enter');
      await post(`${tasks}/tasks`, { action: 'second' });
      await item(page, 'second').waitFor();
      expect(await page.locator('details[open] .task-action').allTextContents()).to.deep.equal(['first']);
      expect(await page.locator(':focus .task-action').textContent()).to.equal('first');
    });
  });

  it('says when a task is tried again and why, and what the service says when it cannot list', async () => {
    const DATA_DIR = await temporaryFolder();
    const { tasks } = await startServices({ env: { DATA_DIR } });
    const rows = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
    afterTest(() => rows.close());
    rows.exec(`CREATE TRIGGER t BEFORE INSERT ON tasks BEGIN SELECT RAISE(ABORT, 'not now'); END`);
    await visit(tasks, { tolerated: /status of 500/ }, async (page) => {
      await queueButton(page).click();
      await ownTask(page, 'retrying').waitFor();
      expect(await ownTask(page, 'retrying').textContent()).to.match(/not now.*again in \d+ s/s);
      rows.exec('DROP TRIGGER t');
      await ownTask(page, 'completed').waitFor();

      await rename(join(DATA_DIR, 'tasks.db'), join(DATA_DIR, 'away.db'));
      // The task's event makes the page request the listing again.
      await post(`${tasks}/tasks`, { action: 'sum' });
      await reaches(page, 'failing');
      expect(await part(page, 'connection-text').textContent()).to.equal('Service answers: database unavailable');
      await rename(join(DATA_DIR, 'away.db'), join(DATA_DIR, 'tasks.db'));
      await reaches(page, 'live');
    });
  });

  it('says that the service cannot be reached, and goes on when it can', async () => {
    const DATA_DIR = await temporaryFolder();
    const first = await startServices({ env: { DATA_DIR } });
    await visit(first.tasks, { tolerated: /net::ERR_/ }, async (page) => {
      await queueButton(page).click();
      await items(page).waitFor();
      first.child.kill('SIGKILL');
      await reaches(page, 'reconnecting');
      expect(await part(page, 'connection-text').textContent()).to.match(/^Unreachable, retry in \d+ s$/);
      await queueButton(page).click();
      await page.getByRole('alert').filter({ hasText: 'The service cannot be reached.' }).waitFor();
      expect(await items(page).count()).to.equal(1);
      await startServices({ env: { DATA_DIR, TASKS_PORT: new URL(first.tasks).port } });
      await reaches(page, 'live');
      await queueButton(page).click();
      await page.waitForFunction(() => document.querySelectorAll('.task-item').length === 2);
    });
  });

  it('can be used by keyboard only', async () => {
    const { tasks } = services();
    await visit(tasks, {}, async (page) => {
      await reaches(page, 'live');
      await page.keyboard.press('Tab');
      expect(await page.evaluate(() => document.activeElement?.ariaLabel)).to.equal('Theme');
      await page.keyboard.press('Tab');
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('Tab');
      await page.keyboard.type(', 4');
      await page.keyboard.press('Control+Enter');
      await ownTask(page, 'completed').waitFor();
      await items(page).first().getByText('sum').first().waitFor();
      const names: string[] = [];
      for (let stop = 0; stop < 7; stop++) {
        await page.keyboard.press('Tab');
        names.push(await page.evaluate(() => document.activeElement?.textContent?.replace(/\s+/g, ' ').trim() ?? ''));
      }
      expect(names.slice(0, 2)).to.deep.equal(['Queue task', 'Copy']);
      expect(names.at(-2)).to.equal('Pause');
      expect(names.at(-1)).to.match(/^sum\b/);
      await page.keyboard.press('Enter');
      expect(await page.locator('details[open]').count()).to.equal(1);
    });
  });

  it('lists the newest 100 tasks, filtered by status and by search text', async () => {
    const { tasks } = services();
    for (let i = 0; i < 101; i++) await post(`${tasks}/tasks`, { action: `action-${i}` });
    await visit(tasks, {}, async (page) => {
      await page.waitForFunction(() => document.querySelectorAll('.task-item').length === 100);
      await page.getByLabel('Pending').check();
      await page.getByText('No stored task has the status “pending”.').waitFor();
      expect(await items(page).count()).to.equal(0);
      // The page follows its own task although the filter hides it.
      await queueButton(page).click();
      await ownTask(page, 'completed').waitFor();
      await page.getByLabel('Completed').check();
      await page.waitForFunction(() => document.querySelectorAll('.task-item').length === 100);
      await page.getByLabel('Find in these tasks').fill('ACTION-77');
      await page.waitForFunction(() => document.querySelectorAll('.task-item').length === 1);
      expect(await part(page, 'task-count').textContent()).to.equal('1 of 100');
      await page.getByLabel('Find in these tasks').fill('nowhere');
      await page.getByText('No task holds what you look for.').waitFor();
    });
  });
});
