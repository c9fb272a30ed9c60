import { expect } from 'chai';
import type { Page, WebSocketRoute } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, LOST, part, reaches, signIn, visit } from './chromium.ts';

const START = 1_800_000_000;

/** Stream that a spec plays to the page. */
interface PlayedStream {
  route: WebSocketRoute | undefined;
  /** Number of pings that the page has sent. */
  pings: number;
  /** Advances the page's clock by a second, and then sends a tick. */
  tick(timestamp: number): Promise<void>;
}

/** Replaces the service's stream. Every ping is answered at once. */
async function playStream(page: Page): Promise<PlayedStream> {
  const send = (timestamp: number) => {
    const data = [{ symbol: 'BTC-USD', price: timestamp, timestamp }];
    stream.route?.send(JSON.stringify({ type: 'ticker', data }));
  };
  const stream: PlayedStream = {
    route: undefined,
    pings: 0,
    async tick(timestamp) {
      await page.clock.runFor(1_000);
      send(timestamp);
      const price = `$${timestamp.toLocaleString('en-US')}.00 `;
      await eventually(
        () => page.title(),
        (title) => title.startsWith(price),
      );
    },
  };
  await page.clock.install({ time: START * 1_000 });
  await page.routeWebSocket('**/ws/ticker', (route) => {
    stream.route = route;
    route.onMessage(() => {
      stream.pings++;
      route.send('{"type":"pong"}');
    });
    send(START);
  });
  await page.route('**/prices/history?*', (route) => route.abort());
  return stream;
}

/** Signs in, and then stops the page's clock. */
async function signInAndStopClock(page: Page, apiKey: string): Promise<void> {
  await signIn(page, apiKey);
  await part(page, 'round-trip').filter({ hasText: 'ms' }).waitFor();
  await page.clock.pauseAt((START + 60) * 1_000);
}

const reading = (page: Page, name: string) => part(page, name).textContent();

const openDrawer = (page: Page) => page.getByRole('button', { name: 'Developers' }).click();
const openDiagnostics = (page: Page) => part(page, 'connection').click();

describeInBrowser('the diagnostics of the price page', () => {
  const services = onceForSuite(() => startServices());

  it('shows in the diagnostics what the stream is like', async () => {
    const { ticker, apiKey } = services();
    let stream: PlayedStream | undefined;
    const prepare = async (page: Page) => {
      stream = await playStream(page);
    };
    await visit(ticker, { prepare, ownContext: true, tolerated: LOST }, async (page) => {
      if (stream === undefined) throw new Error('there is no stream');
      await signInAndStopClock(page, apiKey);
      await openDrawer(page);
      await openDiagnostics(page);
      expect(await reading(page, 'last-close')).to.equal('none');
      expect(await reading(page, 'tick-jitter')).to.equal('not known yet');
      for (const timestamp of [1, 2, 3, 4, 7, 8]) await stream.tick(START + timestamp);
      await page.clock.runFor(500);
      expect(await reading(page, 'ping-figures')).to.match(/^p50\s[\d.]+\sms, p95\s[\d.]+\sms$/);
      expect(await reading(page, 'tick-age')).to.equal('0.5 s');
      expect(await reading(page, 'tick-interval')).to.equal('1.0 s');
      expect(await reading(page, 'tick-jitter')).to.equal('0.0 ms');
      expect(await reading(page, 'missed-ticks')).to.equal('2');
      expect(await reading(page, 'reconnects')).to.equal('0');
      expect(await reading(page, 'token-expiry')).to.match(/^expires in 5[89] min \d+ s$/);

      await stream.route?.close({ code: 1001, reason: 'server is shutting down' });
      await reaches(page, 'reconnecting');
      await page.clock.runFor(1_500);
      await reaches(page, 'live');
      await page.clock.runFor(500);
      expect(await reading(page, 'reconnects')).to.equal('1');
      expect(await reading(page, 'last-close')).to.match(/^1001: server is shutting down \(\d\d:\d\d:\d\d\)$/);

      await page.getByRole('button', { name: 'Close the drawer' }).click();
      await page.getByRole('button', { name: 'Close the diagnostics' }).click();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await openDiagnostics(page);
      expect(await reading(page, 'token-expiry')).to.equal('no token');
      expect(await reading(page, 'tick-age')).to.equal('none yet');
    });
  });

  it('sends a ping every two seconds while the diagnostics or the drawer are open, and fewer otherwise', async () => {
    const { ticker, apiKey } = services();
    let stream: PlayedStream | undefined;
    const prepare = async (page: Page) => {
      stream = await playStream(page);
    };
    await visit(ticker, { prepare, ownContext: true, tolerated: LOST }, async (page) => {
      await signInAndStopClock(page, apiKey);
      let timestamp = START;
      const pingsDuring = async (seconds: number) => {
        const before = stream?.pings ?? 0;
        for (let second = 0; second < seconds; second++) await stream?.tick(++timestamp);
        return (stream?.pings ?? 0) - before;
      };
      expect(await pingsDuring(20)).to.be.within(1, 5);
      for (const [open, close] of [
        [openDiagnostics, 'Close the diagnostics'],
        [openDrawer, 'Close the drawer'],
      ] as const) {
        await open(page);
        expect(await pingsDuring(20), 'while open').to.be.within(8, 15);
        await page.getByRole('button', { name: close }).click();
        expect(await pingsDuring(20), 'after it was closed').to.be.within(1, 5);
      }
    });
  });
});
