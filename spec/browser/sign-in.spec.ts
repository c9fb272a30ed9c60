import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, enterKey, LOST, part, reaches, visit } from './chromium.ts';
import { lists, ownTask, queueButton } from './task-rows.ts';

const keyField = (page: Page) => page.getByLabel('API key', { exact: true });
const stored = (page: Page) => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const revoke = (service: string, token: string) =>
  request(`${service}/auth/token`, { method: 'DELETE', headers: bearer(token) });

describeInBrowser('a sign-in', () => {
  const running = onceForSuite(() => startServices({ env: { TASKS_REQUIRE_TOKEN: 'true' } }));

  /** Enters the key with the box checked. Returns the token. */
  async function keep(page: Page): Promise<string> {
    const box = page.getByLabel('Keep me signed in');
    expect(await box.isChecked(), 'off by default').to.equal(false);
    await box.check();
    return enterKey(page, running().apiKey);
  }

  it('holds for a reload of this tab until the user signs out or the token ends, only if the box is checked', async () => {
    const { apiKey, tasks } = running();
    const page = await visit(tasks, { tolerated: LOST });
    await keyField(page).waitFor();
    expect(await page.locator('#keep-hint').textContent()).to.include('sessionStorage');
    await enterKey(page, apiKey);
    expect(await stored(page)).to.equal('[{},{}]');
    await page.reload();

    const token = await keep(page);
    const kept = await stored(page);
    expect(kept).to.include(token).and.not.include(apiKey);
    const refused: string[] = [];
    page.on('response', (response) => {
      if (response.status() === 401) refused.push(response.url());
    });
    await page.reload();
    await reaches(page, 'live');
    expect(refused, 'requests without the kept token').to.deep.equal([]);
    expect(await keyField(page).isVisible()).to.equal(false);
    expect(await part(page, 'sign-out').textContent()).to.equal('Sign out demo');

    const tab = await page.context().newPage();
    await tab.goto(tasks);
    await keyField(tab).waitFor();
    await tab.close();

    await page.getByRole('button', { name: 'Sign out' }).click();
    await keyField(page).waitFor();
    expect(await stored(page)).to.equal('[{},{}]');
    await until(async () => (await request(`${tasks}/tasks`, { headers: bearer(token) })).status === 401);
    await page.reload();

    const second = await keep(page);
    await page.goto('about:blank');
    await revoke(tasks, second);
    await page.goto(tasks);
    await page.getByText('Your session has ended').waitFor();
    expect(await stored(page)).to.equal('[{},{}]');

    await keep(page);
    await page.evaluate(() => {
      const session = JSON.parse(sessionStorage.getItem('session') ?? '');
      sessionStorage.setItem('session', JSON.stringify({ ...session, expiresAt: Date.now() - 1 }));
    });
    await page.reload();
    await keyField(page).waitFor();
    expect(await stored(page)).to.equal('[{},{}]');
  });

  it('to the task board lets the user follow the tasks, until the token is revoked, and is asked for again each time the token is refused right after it', async () => {
    const { tasks, apiKey, token, lines } = running();
    const page = await visit(tasks, { tolerated: LOST });
    await reaches(page, 'signed-out');
    expect(await queueButton(page).isVisible()).to.equal(false);
    expect(await part(page, 'sign-in-reason').isVisible()).to.equal(false);
    await keyField(page).fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('invalid API key').waitFor();
    const following = page.waitForResponse((response) => response.url().endsWith('/tasks/events'));
    const first = await enterKey(page, apiKey);
    expect((await following).status()).to.equal(200);
    expect(await part(page, 'curl').first().textContent()).to.include('-H "Authorization: Bearer $TOKEN"');
    await queueButton(page).click();
    await ownTask(page, 'completed').waitFor();
    const body = '{"action":"of-another-client"}';
    await request(`${tasks}/tasks`, { method: 'POST', headers: bearer(await token()), body });
    await lists(page, 'of-another-client');

    await page.getByLabel('Text').fill('a draft');
    await revoke(tasks, first);
    await page.getByText('Your session has ended.').waitFor();
    expect(await queueButton(page).isVisible()).to.equal(false);
    await enterKey(page, apiKey);
    expect(await page.getByLabel('Text').inputValue()).to.equal('a draft');

    await page.getByRole('button', { name: 'Sign out' }).click();
    await reaches(page, 'signed-out');
    expect(await page.locator('.task-row').count()).to.equal(0);
    expect(JSON.stringify(lines)).to.not.include('v3.local.');

    await page.route('**/queue', (route) => route.fulfill({ status: 401, json: { error: 'unauthorized' } }));
    for (const _ of [1, 2]) {
      await keyField(page).fill(apiKey);
      const refused = page.waitForResponse((response) => response.url().endsWith('/queue'));
      await page.keyboard.press('Enter');
      await refused;
      await page.getByText('Your session has ended.').waitFor();
    }
  });
});
