import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { violations } from './accessibility.ts';
import { describeInBrowser, LOST, part, reaches, visit } from './chromium.ts';

/** Enters the key, with the box checked or not. Returns the token. */
async function signIn(page: Page, apiKey: string, isKept: boolean): Promise<string> {
  const box = page.getByLabel('Keep me signed in');
  expect(await box.isChecked(), 'off by default').to.equal(false);
  await box.setChecked(isKept);
  const exchange = page.waitForResponse((response) => response.url().endsWith('/auth/token'));
  await page.getByLabel('API key', { exact: true }).fill(apiKey);
  await page.keyboard.press('Enter');
  const { token } = await (await exchange).json();
  await reaches(page, 'live');
  return token;
}

const stored = (page: Page) => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));
const asksForKey = (page: Page) => page.getByLabel('API key', { exact: true }).waitFor();

describeInBrowser('“Keep me signed in”', () => {
  const running = onceForSuite(() => startServices({ env: { TASKS_REQUIRE_TOKEN: 'true' } }));

  for (const client of ['ticker', 'tasks'] as const) {
    it(`lets a reload go on without the key, in this tab, until the user signs out: ${client}`, async () => {
      const services = running();
      const { apiKey } = services;
      const url = services[client];
      await visit(url, { tolerated: LOST }, async (page) => {
        await asksForKey(page);
        expect(await page.locator('#keep-hint').textContent()).to.include('sessionStorage');
        const token = await signIn(page, apiKey, true);
        const kept = await stored(page);
        expect(kept).to.include(token);
        expect(kept).to.not.include(apiKey);

        const refused: string[] = [];
        page.on('response', (response) => {
          if (response.status() === 401) refused.push(response.url());
        });
        await page.reload();
        await reaches(page, 'live');
        expect(refused, 'requests without the kept token').to.deep.equal([]);
        expect(await page.getByLabel('API key', { exact: true }).isVisible()).to.equal(false);
        expect(await part(page, 'sign-out').textContent()).to.equal('Sign out demo');
        expect(await violations(page)).to.deep.equal([]);

        const tab = await page.context().newPage();
        await tab.goto(url);
        await asksForKey(tab);
        await tab.close();

        await page.getByRole('button', { name: 'Sign out' }).click();
        await asksForKey(page);
        expect(await stored(page)).to.equal('[{},{}]');
        const headers = { Authorization: `Bearer ${token}` };
        await eventually(
          () => request(`${services.ticker}/prices/history`, { headers }),
          ({ status }) => status === 401,
        );
        await page.reload();
        await asksForKey(page);
      });
    });

    it(`keeps nothing unless the box is checked: ${client}`, async () => {
      const services = running();
      await visit(services[client], { tolerated: LOST }, async (page) => {
        await signIn(page, services.apiKey, false);
        expect(await stored(page)).to.equal('[{},{}]');
        await page.reload();
        await asksForKey(page);
      });
    });

    it(`asks for the key again once the kept token is refused or expired: ${client}`, async () => {
      const services = running();
      await visit(services[client], { tolerated: LOST }, async (page) => {
        const token = await signIn(page, services.apiKey, true);
        await page.goto('about:blank');
        await request(`${services.ticker}/auth/token`, {
          method: 'DELETE',
          headers: { Authorization: `Bearer ${token}` },
        });
        await page.goto(services[client]);
        await page.getByText('Your session has ended').waitFor();
        expect(await stored(page)).to.equal('[{},{}]');

        await signIn(page, services.apiKey, true);
        await page.evaluate(() => {
          const session = JSON.parse(sessionStorage.getItem('session') ?? '');
          sessionStorage.setItem('session', JSON.stringify({ ...session, expiresAt: Date.now() - 1 }));
        });
        await page.reload();
        await asksForKey(page);
        expect(await stored(page)).to.equal('[{},{}]');
      });
    });
  }
});
