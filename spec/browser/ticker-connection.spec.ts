import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, LOST, noteStates, part, partShows, reaches, signIn, visit } from './chromium.ts';
import { imitateStream } from './imitated-stream.ts';
import { LONG_RECONNECT } from './ticker-page.ts';

const START = 1_800_000_000;
const INTERVAL_MS = 2_000;

const slider = (page: Page) => page.getByRole('slider').first();
const edge = async (page: Page) => Number(await slider(page).getAttribute('aria-valuemax'));

describeInBrowser('the connection of the ticker client', () => {
  const services = onceForSuite(startServices);

  const causes: Record<string, (page: Page) => Promise<unknown>> = {
    'the network returns': (page) => page.evaluate(() => dispatchEvent(new Event('online'))),
    'the tab becomes visible': (page) => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))),
    'the user wants it': (page) => page.getByRole('button', { name: 'Retry' }).click(),
  };
  it(`reconnects automatically, at once when ${Object.keys(causes).join(', when ')}, and fills the charts with the ticks from before and from the outage`, async () => {
    const { ticker, apiKey, token } = services();
    const network = await severable(ticker);
    const headers = { Authorization: `Bearer ${await token()}` };
    const recordedSeconds = async (): Promise<number[]> =>
      (await request(`${ticker}/prices/history`, { headers })).body.timestamps;
    const recorded = await eventually(recordedSeconds, (seconds) => seconds.length > 3);
    const page = await visit(network.url, { tolerated: LOST });
    const requests: string[] = [];
    page.on('request', (each) => requests.push(each.url()));
    await signIn(page, apiKey);
    const second = async (key: string) => {
      await slider(page).press(key);
      return Number(await slider(page).getAttribute('aria-valuenow'));
    };
    await until(async () => (await second('Home')) === recorded[0]);
    await slider(page).press('Escape');
    network.cut();
    await partShows(page, 'connection-text', /^Reconnecting in \d+ s$/);
    const lostAt = (await recordedSeconds()).at(-1) ?? 0;
    await eventually(recordedSeconds, (seconds) => (seconds.at(-1) ?? 0) > lostAt + 3);
    network.mend();
    await reaches(page, 'live');
    // Each step to the left reaches the second before, so there is no gap.
    await eventually(
      async () => {
        const seconds = [await second('End')];
        while ((seconds.at(-1) ?? 0) > lostAt) seconds.push(await second('ArrowLeft'));
        return seconds;
      },
      (seconds) => seconds.every((each, index) => index === 0 || (seconds[index - 1] ?? 0) - each === 1),
    );
    expect(requests.filter((url) => url.includes('/prices/history'))).to.have.length(1);

    await page.evaluate(LONG_RECONNECT);
    for (const bringAbout of Object.values(causes)) {
      network.cut();
      await reaches(page, 'reconnecting');
      network.mend();
      await bringAbout(page);
      await reaches(page, 'live');
    }
  });

  it('asks for the key again when its token is unknown after a restart of the service, and keeps the charts of the symbols that the service still has', async () => {
    const DATA_DIR = await temporaryFolder();
    const first = await startServices({ env: { DATA_DIR } });
    const TICKER_PORT = new URL(first.ticker).port;
    const page = await visit(first.ticker, { tolerated: LOST });
    await signIn(page, first.apiKey);
    const before = await edge(page);
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
    await until(async () => (await edge(page)) > before);
    await slider(page).press('Home');
    expect(Number(await slider(page).getAttribute('aria-valuenow'))).to.be.at.most(before);
  });

  it('starts without a history, takes prices for stale after three intervals, also if the clock was set back, and moves its charts on until the user signs out', async () => {
    const { ticker, apiKey } = services();
    let now = START;
    const stream = imitateStream(() => now, INTERVAL_MS);
    const prepare = async (page: Page) => {
      await page.clock.install({ time: START * 1000 });
      await stream.prepare(page);
    };
    const page = await visit(ticker, { prepare, ownContext: true, tolerated: LOST });
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
    await page.clock.runFor(10_000);
    await until(async () => (await edge(page)) >= now + 10);
    await slider(page).press('End');
    expect(await slider(page).getAttribute('aria-valuenow'), 'the newest point').to.equal(`${now}`);

    await tick();
    await page.clock.setSystemTime((START - 3_600) * 1000);
    await page.clock.runFor(4 * INTERVAL_MS);
    await reaches(page, 'stale');
    expect(await part(page, 'connection-text').textContent()).to.match(/^Stale, no price for \d+ s$/);
    await tick();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await reaches(page, 'signed-out');
    const last = await edge(page);
    await page.clock.runFor(10_000);
    expect(await edge(page)).to.equal(last);
  });
});
