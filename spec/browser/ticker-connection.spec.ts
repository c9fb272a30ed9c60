import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { describeInBrowser, LOST, noteStates, part, partShows, reaches, signIn, visit } from './chromium.ts';
import { imitateStream } from './imitated-stream.ts';
import { LONG_RECONNECT, shown } from './ticker-page.ts';

const START = 1_800_000_000;
const INTERVAL_MS = 2_000;

describeInBrowser('the connection of the ticker client', () => {
  const services = onceForSuite(startServices);

  const causes: Record<string, (page: Page) => Promise<unknown>> = {
    'the network returns': (page) => page.evaluate(() => dispatchEvent(new Event('online'))),
    'the tab becomes visible': (page) => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))),
    'the user wants it': (page) => page.getByRole('button', { name: 'Retry' }).click(),
  };
  it(`reconnects automatically, at once when ${Object.keys(causes).join(', when ')}, and keeps the charts`, async () => {
    const { ticker, apiKey } = services();
    const network = await severable(ticker);
    await visit(network.url, { tolerated: LOST }, async (page) => {
      await signIn(page, apiKey);
      const low = async () => Number.parseFloat((await shown(page, 'BTC-USD', 'low'))?.replace(/[$,]/g, '') ?? '');
      const before = await low();
      network.cut();
      await partShows(page, 'connection-text', /^Reconnecting in \d+ s$/);
      expect(await low()).to.be.at.most(before);
      network.mend();
      await reaches(page, 'live');

      await page.evaluate(LONG_RECONNECT);
      for (const bringAbout of Object.values(causes)) {
        network.cut();
        await reaches(page, 'reconnecting');
        network.mend();
        await bringAbout(page);
        await reaches(page, 'live');
      }
    });
  });

  it('asks for the key again when its token is unknown after a restart of the service, and keeps the charts of the symbols that the service still has', async () => {
    const DATA_DIR = await temporaryFolder();
    const first = await startServices({ env: { DATA_DIR } });
    const TICKER_PORT = new URL(first.ticker).port;
    await visit(first.ticker, { tolerated: LOST }, async (page) => {
      await signIn(page, first.apiKey);
      const seconds = async () => Number(await page.locator('[role=slider]').first().getAttribute('aria-valuemax'));
      const before = await seconds();
      first.child.kill('SIGKILL');
      await reaches(page, 'reconnecting');
      const TICKER_SYMBOLS = 'BTC-USD:42000,ETH-USD:2500,NEW-USD:1';
      await startServices({ env: { DATA_DIR, TICKER_PORT, TICKER_SYMBOLS } });
      // Tokens are in memory and died with the process, so the page asks for the key again.
      await page.getByText('Your session has ended').waitFor();
      expect(await page.locator('.price-card').count()).to.equal(3);
      await signIn(page, first.apiKey);
      await page.locator('.price-card', { hasText: 'NEW-USD' }).waitFor();
      expect(await page.locator('.price-card').count(), 'without SOL-USD').to.equal(3);
      await page.waitForFunction(
        (was) => Number(document.querySelector('[role=slider]')?.getAttribute('aria-valuemax')) > was,
        before,
      );
      await page.getByRole('slider').first().focus();
      await page.keyboard.press('Home');
      expect(Number(await page.getByRole('slider').first().getAttribute('aria-valuenow'))).to.be.at.most(before);
    });
  });

  it('takes prices for stale after three intervals, also if the clock was set back', async () => {
    const { ticker, apiKey } = services();
    let now = START;
    const stream = imitateStream(() => now, INTERVAL_MS);
    const prepare = async (page: Page) => {
      await page.clock.install({ time: START * 1000 });
      await stream.prepare(page);
    };
    await visit(ticker, { prepare, ownContext: true, tolerated: LOST }, async (page) => {
      await signIn(page, apiKey);
      const tick = async () => {
        await page.clock.runFor(INTERVAL_MS);
        now += INTERVAL_MS / 1000;
        stream.send(now, 100 + (now % 7));
        await reaches(page, 'live');
      };
      for (let count = 0; count < 3; count++) await tick();
      const states = await noteStates(page);
      await tick();
      await page.clock.runFor(2.5 * INTERVAL_MS);
      expect(await states()).to.deep.equal(['live']);
      await page.clock.runFor(INTERVAL_MS);
      await reaches(page, 'stale');

      await tick();
      await page.clock.setSystemTime((START - 3_600) * 1000);
      await page.clock.runFor(4 * INTERVAL_MS);
      await reaches(page, 'stale');
      expect(await part(page, 'connection-text').textContent()).to.match(/^Stale, no price for \d+ s$/);
      await tick();
    });
  });
});
