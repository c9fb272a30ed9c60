import { execFileSync } from 'node:child_process';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { describeInBrowser, part, reaches, visit } from './chromium.ts';
import { ownTask, queueButton, row, rows } from './task-rows.ts';

/** Longest accepted request body in bytes. */
const BODY_LIMIT = 1_000;

describeInBrowser('the task board', () => {
  /** Services whose listing holds the tasks of other tests too. */
  const services = onceForSuite(() => startServices({ env: { BODY_LIMIT: String(BODY_LIMIT) } }));

  it('shows what others queue as it happens, without asking again and again, with the focus in place, and can be used by keyboard only', async () => {
    const { tasks } = services();
    let listings = 0;
    const prepare = async (page: Page) => {
      page.on('request', (request) => {
        if (request.url().startsWith(`${tasks}/tasks/search?`)) listings += 1;
      });
    };
    const page = await visit(tasks, { prepare });
    const following = page.waitForResponse((response) => response.url().endsWith('/tasks/events'));
    await reaches(page, 'live');
    expect((await following).status()).to.equal(200);
    for (const action of ['one', 'two', 'three']) {
      await post(`${tasks}/tasks`, { action });
      await row(page, action).waitFor();
    }
    // At most one listing per task, and the initial ones.
    expect(listings).to.be.within(1, 6);
    await row(page, 'three').locator('a').focus();
    await post(`${tasks}/tasks`, { action: 'newer' });
    await page.getByRole('button', { name: '1 new – show' }).waitFor();
    await page.keyboard.press('u');
    await row(page, 'newer').waitFor();
    expect(await page.locator(':focus').textContent()).to.equal('three');

    await page.keyboard.press('n');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Tab');
    await page.keyboard.type(', 4');
    await page.keyboard.press('Control+Enter');
    await ownTask(page, 'completed').waitFor();
    await page.locator('.task-row').first().filter({ hasText: 'sum' }).waitFor();
    await page.locator('#find').focus();
    const names: string[] = [];
    await page.keyboard.press('Tab');
    expect(await page.evaluate(() => document.activeElement?.getAttribute('name'))).to.equal('last');
    for (let stop = 0; stop < 2; stop++) {
      await page.keyboard.press('Tab');
      names.push(await page.evaluate(() => document.activeElement?.textContent?.replace(/\s+/g, ' ').trim() ?? ''));
    }
    expect(names).to.deep.equal(['Pause list', 'sum']);
    await page.keyboard.press('Enter');
    await page.waitForURL(/\?task=/);
  });

  it('takes tasks of each form to their rows, gives the request as a curl command, and says why input is invalid or a task is refused or failed', async () => {
    const { tasks } = services();
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
    const cells = await row(page, 'uppercase').locator('th, td').allTextContents();
    expect(cells.map((cell) => cell.trim())).to.include('GRÖSSER <B>');
    expect(cells.at(-1)).to.match(/^\d\d:\d\d:\d\d$/);
    expect(cells.at(-2), 'how long it ran').to.match(/^(< )?\d[\d.]* m?s$/);

    await page.getByLabel('sum').check();
    await page.getByLabel('Numbers').fill('1, 2.5; -3e2\n4');
    await queueButton(page).click();
    await page.locator('.own-output', { hasText: '-292.5' }).waitFor();
    await page.getByLabel('other').check();
    await page.getByLabel('Action', { exact: true }).last().fill('resize');
    await page.getByLabel('Data').fill('{"width": 640}');
    await queueButton(page).click();
    await page.locator('.own-output', { hasText: 'processed' }).waitFor();
    await row(page, 'resize').waitFor();
    const actions = await rows(page).locator('.task-name').allTextContents();
    expect(actions.slice(0, 2)).to.deep.equal(['resize', 'sum']);

    await page.getByLabel('uppercase').check();
    await page.getByLabel('Text').fill(`it's "quoted" $HOME \\n ü`);
    await page.locator('.request').getByRole('button', { name: 'Copy' }).click();
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
    await page.locator('#action').fill('');
    await refusal('Give the action a name.');
    await page.locator('#action').fill('x');
    await page.getByLabel('Data').fill('{x');
    await refusal('not JSON');
    expect(sent).to.equal(0);

    await page.getByLabel('uppercase').check();
    await page.getByLabel('Text').fill('x'.repeat(BODY_LIMIT));
    await queueButton(page).click();
    await page.getByRole('alert').filter({ hasText: 'request body too large' }).waitFor();
    expect(await page.locator('.own-task').count()).to.equal(3);
    await page.getByLabel('sum').check();
    await page.getByLabel('Numbers').fill('1e308 1e308');
    await queueButton(page).click();
    await ownTask(page, 'failed').waitFor();
    expect(await ownTask(page, 'failed').textContent()).to.include('the sum of data.numbers is too large');
    expect(await part(page, 'own-status').textContent()).to.match(/^Failed sum: the sum/);
  });
});
