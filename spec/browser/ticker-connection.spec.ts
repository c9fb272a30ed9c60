import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, LOST, visit } from './chromium.ts';
import { changes, countRequests, enlargeText, noteStates, overflow, part, partShows, reaches, signIn } from './page.ts';
import { imitateStream, LONG_RECONNECT, START } from './ticker-page.ts';

const INTERVAL_MS = 2_000;

const slider = (page: Page) => page.getByRole('slider').first();
const edge = async (page: Page) => Number(await slider(page).getAttribute('aria-valuemax'));

const openDrawer = (page: Page) => page.getByRole('button', { name: 'Developers' }).click();
const openDiagnostics = (page: Page) => part(page, 'connection').click();
const readings = (page: Page): Promise<Record<string, string>> =>
  part(page, 'diagnostics').evaluate((element) => {
    const parts = [...element.querySelectorAll<HTMLElement>('[data-part]')];
    return Object.fromEntries(parts.map((each) => [each.dataset.part, each.textContent]));
  });

describeInBrowser('the connection of the ticker client', () => {
  const services = onceForSuite(startServices);

  it('reconnects automatically, at once when the network returns, the tab becomes visible or the user wants it, and fills the charts with the ticks from before and from the outage', async () => {
    const { ticker, apiKey, token } = services();
    const network = await severable(ticker);
    const headers = { Authorization: `Bearer ${await token()}` };
    const recordedSeconds = async (): Promise<number[]> =>
      (await request(`${ticker}/prices/history`, { headers })).body.timestamps;
    const recorded = await eventually(recordedSeconds, (seconds) => seconds.length > 3);
    const page = await visit(network.url, { tolerated: LOST });
    const histories = countRequests(page, /\/prices\/history/);
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
    // Each step to the left reaches the tick before, so there is no gap.
    await until(async () => {
      const seconds = [await second('End')];
      while ((seconds.at(-1) ?? 0) > lostAt) seconds.push(await second('ArrowLeft'));
      const ticks = await recordedSeconds();
      return ticks.slice(ticks.indexOf(lostAt)).join().startsWith(seconds.reverse().join());
    });
    expect(histories()).to.equal(1);
    await page.evaluate(LONG_RECONNECT);
    for (const bringAbout of [
      () => page.evaluate(() => dispatchEvent(new Event('online'))),
      () => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))),
      () => page.getByRole('button', { name: 'Retry' }).click(),
    ]) {
      network.cut();
      await reaches(page, 'reconnecting');
      network.mend();
      await bringAbout();
      await reaches(page, 'live');
    }
  });

  it('asks for the key again when its token is unknown after a restart of the service, and keeps the charts of the symbols that the service still has', async () => {
    const first = await startServices();
    const TICKER_PORT = new URL(first.ticker).port;
    const page = await visit(first.ticker, { tolerated: LOST });
    await signIn(page, first.apiKey);
    const before = await edge(page);
    first.child.kill('SIGKILL');
    await reaches(page, 'reconnecting');
    const TICKER_SYMBOLS = 'BTC-USD:42000,ETH-USD:2500,NEW-USD:1';
    await startServices({ env: { ...first.env, TICKER_PORT, TICKER_SYMBOLS } });
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

describeInBrowser('the drawer for developers and the diagnostics on the price page', () => {
  const services = onceForSuite(() => startServices({ env: { TICK_INTERVAL_MS: '50' } }));

  it("shows the last 50 frames and snippets with the page's own address, but never the token, and opens, as the diagnostics do, by keyboard and without moving anything", async () => {
    const { ticker, stream, apiKey } = services();
    const received: string[] = [];
    const prepare = async (page: Page) => {
      page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => received.push(String(payload))));
    };
    const page = await visit(ticker, { prepare });
    const token = await signIn(page, apiKey);
    await until(() => received.length > 60);
    await openDrawer(page);
    await page.getByRole('button', { name: 'Pause the frames' }).click();
    const texts = await part(page, 'frame-text').allTextContents();
    expect(texts).to.have.length(50);
    await until(() => received.includes(texts[0] ?? ''));
    const all = received.toReversed();
    const newest = all.indexOf(texts[0] ?? '');
    expect(texts).to.deep.equal(all.slice(newest, newest + 50));
    const sizes = await part(page, 'frame-size').allTextContents();
    expect(sizes).to.deep.equal(texts.map((text) => `${Buffer.byteLength(text)} B`));
    const times = await part(page, 'frame-time').allTextContents();
    for (const time of times) expect(time).to.match(/^\d\d:\d\d:\d\d\.\d{3}$/);
    expect(await page.content()).to.not.include(token);

    const shown = await part(page, 'frames').textContent();
    await changes(() => part(page, 'board').textContent());
    expect(await part(page, 'frames').textContent()).to.equal(shown);
    await page.getByRole('button', { name: 'Copy all' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const lines = (await page.evaluate(() => navigator.clipboard.readText())).split('\n');
    expect(lines.map((line) => line.replace(/^[\d:.]+ {2}\d+ B {2}/, ''))).to.deep.equal(texts);
    await page.getByRole('button', { name: 'Resume the frames' }).click();
    await changes(() => part(page, 'frames').textContent(), shown);

    const codes: string[] = [];
    for (const name of ['wscat', 'Node', 'Python', 'Browser']) {
      await page.getByRole('radio', { name }).check();
      codes.push((await part(page, 'snippet').textContent()) ?? '');
      expect(codes.at(-1), name).to.include(stream).and.include('YOUR_TOKEN');
    }
    expect(new Set(codes).size).to.equal(codes.length);
    expect(await part(page, 'frames-view').isHidden()).to.equal(true);
    expect(await part(page, 'token-command').textContent()).to.include(`${ticker}/auth/token`);
    const browserCode = (codes.at(-1) ?? '').replace('YOUR_TOKEN', token);
    const logged = page.waitForEvent('console');
    await page.evaluate(`(() => { ${browserCode} })()`);
    expect((await logged).text()).to.match(/^[A-Z]{3}-USD \d+(\.\d+)?$/);

    await page.getByRole('radio', { name: 'Frames' }).check();
    await part(page, 'drawer-close').click();
    const pill = page.getByRole('button', { name: '(diagnostics)' });
    const developers = page.getByRole('button', { name: 'Developers' });
    const isFocused = (name: string) => part(page, name).evaluate((each) => each === document.activeElement);
    await developers.press('Enter');
    expect(await developers.getAttribute('aria-expanded')).to.equal('true');
    expect(await page.getByRole('radio', { name: 'Frames' }).evaluate((each) => each.matches(':focus'))).to.equal(true);
    await page.keyboard.press('ArrowRight');
    await page.getByRole('radio', { name: 'wscat', checked: true }).waitFor();
    await page.keyboard.press('Escape');
    expect(await part(page, 'drawer').isHidden()).to.equal(true);
    expect(await isFocused('drawer-toggle')).to.equal(true);

    await pill.press('Enter');
    expect(await pill.getAttribute('aria-expanded')).to.equal('true');
    await page.getByRole('region', { name: 'Connection' }).waitFor();
    await page.keyboard.press('Tab');
    expect(await isFocused('diagnostics-close')).to.equal(true);
    for (const key of ['Tab', 'Enter']) await page.keyboard.press(key);
    await page.getByRole('region', { name: 'Developers' }).waitFor();
    expect(await part(page, 'diagnostics').isHidden()).to.equal(true);
    await page.keyboard.press('Escape');
    expect(await isFocused('connection')).to.equal(true);
    for (const key of ['Space', 'Tab', 'Escape']) await page.keyboard.press(key);
    expect(await part(page, 'diagnostics').isHidden()).to.equal(true);
    expect(await isFocused('connection')).to.equal(true);

    const fixed = page.locator('.masthead > :visible:not(.connection, .diagnostics), .tools > :visible, .price-card');
    const boxes = () =>
      fixed.evaluateAll((all) =>
        all.map((each) => {
          const { x, y, width, height } = each.getBoundingClientRect();
          return [x, y + scrollY, width, height].map(Math.round).join();
        }),
      );
    for (const width of [1280, 320]) {
      await page.setViewportSize({ width, height: 800 });
      // Charts follow the width in the next frame.
      await until(async () => (await overflow(page)) <= 0);
      const before = await boxes();
      for (const open of [openDiagnostics, openDrawer]) {
        await open(page);
        expect(await boxes()).to.deep.equal(before);
      }
      // The last card can be scrolled to a place above the drawer.
      await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
      const footer = await page.locator('.colophon').boundingBox();
      const drawer = await part(page, 'drawer').boundingBox();
      expect((footer?.y ?? 0) + (footer?.height ?? 0)).to.be.at.most((drawer?.y ?? 0) + 1);
      await part(page, 'drawer-close').click();
    }

    await enlargeText(page);
    await openDiagnostics(page);
    expect(await overflow(page), 'diagnostics').to.be.at.most(0);
    await part(page, 'drawer-open').click();
    for (const view of ['Frames', 'Python']) {
      await page.getByRole('radio', { name: view }).check();
      expect(await overflow(page), view).to.be.at.most(0);
    }
  });

  it('shows in the diagnostics what the stream is like, and sends more pings while they or the drawer are open', async () => {
    const { ticker, apiKey } = services();
    const stream = imitateStream();
    const prepare = async (page: Page) => {
      await page.clock.install({ time: START * 1_000 });
      await stream.prepare(page);
    };
    const page = await visit(ticker, { prepare, ownContext: true, tolerated: LOST });
    await signIn(page, apiKey);
    await partShows(page, 'round-trip', 'ms');
    await page.clock.pauseAt((START + 60) * 1_000);
    const tick = async (timestamp: number, skipped?: number) => {
      await page.clock.runFor(1_000);
      stream.send(timestamp, timestamp, skipped);
      const price = `$${timestamp.toLocaleString('en-US')}.00 `;
      await until(async () => (await page.title()).startsWith(price));
    };
    await openDrawer(page);
    await openDiagnostics(page);
    expect(await readings(page)).to.include({ 'last-close': 'none', 'tick-jitter': 'not known yet' });
    for (const timestamp of [1, 2, 3, 4]) await tick(START + timestamp);
    await tick(START + 7, 2);
    await tick(START + 8);
    await page.clock.runFor(500);
    const ticks = { 'tick-age': '0.5 s', 'tick-interval': '1.0 s', 'tick-jitter': '0.0 ms', 'missed-ticks': '2' };
    expect(await readings(page)).to.include({ ...ticks, reconnects: '0' });
    await partShows(page, 'ping-figures', /^p50\s[\d.]+\sms, p95\s[\d.]+\sms$/);
    await partShows(page, 'token-expiry', /^expires in 5[89] min \d+ s$/);

    await page.getByRole('button', { name: 'Close the drawer' }).click();
    await page.getByRole('button', { name: 'Close the diagnostics' }).click();

    let timestamp = START + 8;
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

    await openDiagnostics(page);
    await stream.close(1001, 'server is shutting down');
    await reaches(page, 'reconnecting');
    await page.clock.runFor(1_500);
    await reaches(page, 'live');
    await page.clock.runFor(500);
    expect(await readings(page)).to.include({ reconnects: '1' });
    await partShows(page, 'last-close', /^1001: server is shutting down \(\d\d:\d\d:\d\d\)$/);

    await page.getByRole('button', { name: 'Close the diagnostics' }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await openDiagnostics(page);
    expect(await readings(page)).to.include({ 'token-expiry': 'no token', 'tick-age': 'none yet' });
  });
});
