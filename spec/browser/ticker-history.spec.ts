import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, LOST, part, reaches, signIn, visit } from './chromium.ts';
import { imitateStream } from './imitated-stream.ts';
import { shown, waitLongToReconnect } from './ticker-page.ts';

const START = 1_800_000_000;

const slider = (page: Page) => page.getByRole('slider').first();
const edge = async (page: Page) => Number(await slider(page).getAttribute('aria-valuemax'));

/** Returns the Unix time of the oldest point in the first chart. */
async function oldest(page: Page): Promise<number> {
  await slider(page).press('Home');
  return Number(await slider(page).getAttribute('aria-valuenow'));
}

describeInBrowser('the charts of the ticker client', () => {
  const services = onceForSuite(startServices);

  async function recordedSeconds(): Promise<number[]> {
    const { ticker, token } = services();
    const headers = { Authorization: `Bearer ${await token()}` };
    return (await request(`${ticker}/prices/history`, { headers })).body.timestamps;
  }

  it('are filled at once with the ticks from before the page was opened, and again after a lost connection', async () => {
    const { ticker, apiKey } = services();
    const network = await severable(ticker);
    const recorded = await eventually(recordedSeconds, (seconds) => seconds.length > 3);
    await visit(network.url, { tolerated: LOST, prepare: waitLongToReconnect }, async (page) => {
      const requests: string[] = [];
      page.on('request', (request) => requests.push(request.url()));
      await signIn(page, apiKey);
      await until(async () => (await oldest(page)) === recorded[0]);
      await slider(page).press('Escape');
      network.cut();
      await reaches(page, 'reconnecting');
      const lostAt = (await recordedSeconds()).at(-1) ?? 0;
      await eventually(recordedSeconds, (seconds) => (seconds.at(-1) ?? 0) > lostAt + 3);
      network.mend();
      await page.getByRole('button', { name: 'Retry' }).click();
      await reaches(page, 'live');
      // Each step to the left reaches the second before, so there is no gap.
      await eventually(
        async () => {
          await slider(page).press('End');
          const seconds = [Number(await slider(page).getAttribute('aria-valuenow'))];
          while ((seconds.at(-1) ?? 0) > lostAt) {
            await slider(page).press('ArrowLeft');
            seconds.push(Number(await slider(page).getAttribute('aria-valuenow')));
          }
          return seconds;
        },
        (seconds) => seconds.every((second, index) => index === 0 || (seconds[index - 1] ?? 0) - second === 1),
      );
      expect(requests.filter((url) => url.includes('/prices/history'))).to.have.length(1);
    });
  });

  it('start with the stream if the history cannot be read', async () => {
    const { ticker, apiKey } = services();
    const prepare = (page: Page) => page.route('**/prices/history?*', (route) => route.fulfill({ status: 503 }));
    await visit(ticker, { prepare, tolerated: /status of 503/ }, async (page) => {
      await signIn(page, apiKey);
      const before = await edge(page);
      await until(async () => (await edge(page)) > before);
    });
  });

  it('show the highest and lowest price of their time span, and the change over it, from the history', async () => {
    const { ticker, apiKey } = services();
    const stream = imitateStream(() => START);
    const ticks = [
      [START - 7_200, 400],
      [START - 800, 200],
      [START - 60, 50],
      [START - 1, 90],
    ] as const;
    const prepare = async (page: Page) => {
      // Otherwise the charts move on, and the oldest tick leaves them.
      await page.clock.setFixedTime(Date.now());
      await stream.prepare(page, ticks);
    };
    await visit(ticker, { prepare }, async (page) => {
      const requested: (string | null)[] = [];
      page.on('request', (each) => {
        if (each.url().includes('/prices/history')) requested.push(new URL(each.url()).searchParams.get('seconds'));
      });
      await signIn(page, apiKey);
      await part(page, 'low').filter({ hasText: '$50.00' }).waitFor();
      expect(await shown(page, 'BTC-USD', 'high')).to.equal('$100.00');
      const changes = async () => [await shown(page, 'BTC-USD', 'change-since'), await shown(page, 'BTC-USD', 'share')];
      expect(await changes()).to.deep.equal(['Change in 1 min', '+100.00%']);
      await page.getByLabel('15 min').check();
      await part(page, 'high').filter({ hasText: '$200.00' }).waitFor();
      const [since, share] = await changes();
      expect(since, 'the start of the history').to.match(/^Change since \d\d:\d\d:\d\d$/);
      expect(share).to.equal('−50.00%');
      await page.getByLabel('24 h').check();
      await part(page, 'high').filter({ hasText: '$400.00' }).waitFor();
      expect((await changes())[1]).to.equal('−75.00%');
      expect(requested).to.deep.equal(['900', '900', '86400']);
    });
  });

  it('move on while no price arrives, so that the gap grows, and stop when the user is signed out', async () => {
    const { ticker, apiKey } = services();
    const stream = imitateStream(() => START);
    const prepare = async (page: Page) => {
      await page.clock.install();
      await stream.prepare(page);
    };
    await visit(ticker, { prepare, ownContext: true, tolerated: LOST }, async (page) => {
      await signIn(page, apiKey);
      await until(async () => (await edge(page)) >= START);
      await page.clock.runFor(30_000);
      await until(async () => (await edge(page)) >= START + 30);
      await slider(page).press('End');
      expect(await slider(page).getAttribute('aria-valuenow'), 'the newest point').to.equal(String(START));
      stream.send(START + 40, 101);
      await until(async () => (await edge(page)) >= START + 40);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await reaches(page, 'signed-out');
      const last = await edge(page);
      await page.clock.runFor(10_000);
      expect(await edge(page)).to.equal(last);
    });
  });
});
