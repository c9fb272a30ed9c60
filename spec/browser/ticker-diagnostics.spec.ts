import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, LOST, part, reaches, signIn, visit } from './chromium.ts';
import { type ImitatedStream, imitateStream } from './imitated-stream.ts';

const START = 1_800_000_000;

const reading = (page: Page, name: string) => part(page, name).textContent();

const openDrawer = (page: Page) => page.getByRole('button', { name: 'Developers' }).click();
const openDiagnostics = (page: Page) => part(page, 'connection').click();

describeInBrowser('the diagnostics of the price page', () => {
  const services = onceForSuite(() => startServices());

  /** Opens the page with an imitated stream, signs in, and then stops the page's clock, which `tick` advances by a second. */
  const opened = async (
    test: (
      page: Page,
      stream: ImitatedStream,
      tick: (timestamp: number, skipped?: number) => Promise<unknown>,
    ) => Promise<void>,
  ) => {
    const { ticker, apiKey } = services();
    const stream = imitateStream(() => START);
    const prepare = async (page: Page) => {
      await page.clock.install({ time: START * 1_000 });
      await stream.prepare(page);
    };
    await visit(ticker, { prepare, ownContext: true, tolerated: LOST }, async (page) => {
      await signIn(page, apiKey);
      await part(page, 'round-trip').filter({ hasText: 'ms' }).waitFor();
      await page.clock.pauseAt((START + 60) * 1_000);
      await test(page, stream, async (timestamp, skipped) => {
        await page.clock.runFor(1_000);
        stream.send(timestamp, timestamp, skipped);
        const price = `$${timestamp.toLocaleString('en-US')}.00 `;
        await until(async () => (await page.title()).startsWith(price));
      });
    });
  };

  it('shows in the diagnostics what the stream is like', async () => {
    await opened(async (page, stream, tick) => {
      await openDrawer(page);
      await openDiagnostics(page);
      expect(await reading(page, 'last-close')).to.equal('none');
      expect(await reading(page, 'tick-jitter')).to.equal('not known yet');
      for (const timestamp of [1, 2, 3, 4]) await tick(START + timestamp);
      await tick(START + 7, 2);
      await tick(START + 8);
      await page.clock.runFor(500);
      expect(await reading(page, 'ping-figures')).to.match(/^p50\s[\d.]+\sms, p95\s[\d.]+\sms$/);
      expect(await reading(page, 'tick-age')).to.equal('0.5 s');
      expect(await reading(page, 'tick-interval')).to.equal('1.0 s');
      expect(await reading(page, 'tick-jitter')).to.equal('0.0 ms');
      expect(await reading(page, 'missed-ticks')).to.equal('2');
      expect(await reading(page, 'reconnects')).to.equal('0');
      expect(await reading(page, 'token-expiry')).to.match(/^expires in 5[89] min \d+ s$/);

      await stream.close(1001, 'server is shutting down');
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
    await opened(async (page, stream, tick) => {
      let timestamp = START;
      const pingsDuring = async (seconds: number) => {
        const before = stream.pings;
        for (let second = 0; second < seconds; second++) await tick(++timestamp);
        return stream.pings - before;
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
