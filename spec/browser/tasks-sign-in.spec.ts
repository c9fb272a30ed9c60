import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { violations } from './accessibility.ts';
import { describeInBrowser, LOST, part, reaches, visit } from './chromium.ts';

describeInBrowser('the task board with TASKS_REQUIRE_TOKEN', () => {
  it('signs in, follows the tasks, asks again once the token is revoked, and signs out', async () => {
    const { tasks, apiKey, token, lines } = await startServices({ env: { TASKS_REQUIRE_TOKEN: 'true' } });
    const bearer = (text: string) => ({ Authorization: `Bearer ${text}` });
    await visit(tasks, { tolerated: LOST }, async (page) => {
      const key = page.getByLabel('API key', { exact: true });
      const queueButton = page.getByRole('button', { name: 'Queue task' });
      const signIn = async () => {
        const exchange = page.waitForResponse((response) => response.url().endsWith('/auth/token'));
        await key.fill(apiKey);
        await page.keyboard.press('Enter');
        const { token: issued } = await (await exchange).json();
        await reaches(page, 'live');
        return issued as string;
      };

      await reaches(page, 'signed-out');
      expect(await queueButton.isVisible()).to.equal(false);
      expect(await part(page, 'sign-in-reason').isVisible()).to.equal(false);
      await key.fill('wrong');
      await page.keyboard.press('Enter');
      await page.getByText('invalid API key').waitFor();
      expect(await violations(page)).to.deep.equal([]);

      const following = page.waitForResponse((response) => response.url().endsWith('/tasks/events'));
      const first = await signIn();
      expect((await following).status()).to.equal(200);
      expect(await part(page, 'sign-out').textContent()).to.equal('Sign out demo');
      expect(await part(page, 'curl').first().textContent()).to.include('-H "Authorization: Bearer $TOKEN"');
      await queueButton.click();
      await page.locator('.own-task[data-state="completed"]').waitFor();
      const body = '{"action":"of-another-client"}';
      await request(`${tasks}/tasks`, { method: 'POST', headers: bearer(await token()), body });
      await page.locator('.task-row', { hasText: 'of-another-client' }).waitFor();

      await page.getByLabel('Text').fill('a draft');
      await request(`${tasks}/auth/token`, { method: 'DELETE', headers: bearer(first) });
      await page.getByText('Your session has ended.').waitFor();
      expect(await queueButton.isVisible()).to.equal(false);
      const second = await signIn();
      expect(await page.getByLabel('Text').inputValue()).to.equal('a draft');

      await page.getByRole('button', { name: 'Sign out' }).click();
      await reaches(page, 'signed-out');
      expect(await page.locator('.task-row').count()).to.equal(0);
      const refused = () => request(`${tasks}/tasks`, { headers: bearer(second) });
      await eventually(refused, ({ status }) => status === 401);
      expect(JSON.stringify(lines)).to.not.include('v3.local.');
    });
  });

  it('asks again each time the token is refused right after a sign-in', async () => {
    const { tasks, apiKey } = await startServices({ env: { TASKS_REQUIRE_TOKEN: 'true' } });
    const prepare = (page: Page) =>
      page.route('**/queue', (route) => route.fulfill({ status: 401, json: { error: 'unauthorized' } }));
    await visit(tasks, { prepare, tolerated: LOST }, async (page) => {
      const key = page.getByLabel('API key', { exact: true });
      for (const _ of [1, 2]) {
        await key.fill(apiKey);
        const refused = page.waitForResponse((response) => response.url().endsWith('/queue'));
        await page.keyboard.press('Enter');
        await refused;
        await page.getByText('Your session has ended.').waitFor();
      }
      await key.waitFor();
      expect(await page.getByRole('button', { name: 'Queue task' }).isVisible()).to.equal(false);
    });
  });
});
