import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { describeInBrowser, LOST, noteStates, part, reaches, signIn, visit } from './chromium.ts';
import { imitateStream } from './imitated-stream.ts';

const START = 1_800_000_000;
const INTERVAL_MS = 5_000;

describeInBrowser('the ticker client and the tick interval', () => {
  const services = onceForSuite(startServices);

  it('takes prices for stale although the clock was set back', async () => {
    const { ticker, apiKey } = services();
    const stream = imitateStream(() => START);
    const prepare = async (page: Page) => {
      await page.clock.install({ time: START * 1000 });
      await stream.prepare(page);
    };
    await visit(ticker, { prepare, ownContext: true, tolerated: LOST }, async (page) => {
      await signIn(page, apiKey);
      await page.clock.setSystemTime((START - 3_600) * 1000);
      await page.clock.runFor(2 * INTERVAL_MS);
      await reaches(page, 'stale');
      expect(await part(page, 'connection-text').textContent()).to.match(/^Stale, no price for \d+ s$/);
      stream.send(START + 1, 101);
      await reaches(page, 'live');
    });
  });

  it('takes prices for stale after three intervals', async () => {
    const { ticker, apiKey } = services();
    let now = START;
    const stream = imitateStream(() => now, INTERVAL_MS);
    const prepare = async (page: Page) => {
      await page.clock.install();
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
    });
  });
});
