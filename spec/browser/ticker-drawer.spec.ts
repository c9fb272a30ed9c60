import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { eventually, until } from '../support/until.ts';
import { changes, describeInBrowser, LOST, overflow, part, partShows, reaches, signIn, visit } from './chromium.ts';
import { imitateStream } from './imitated-stream.ts';

const MAX_FRAMES = 50;
const START = 1_800_000_000;

const reading = (page: Page, name: string) => part(page, name).textContent();

const openDrawer = (page: Page) => page.getByRole('button', { name: 'Developers' }).click();
const openDiagnostics = (page: Page) => part(page, 'connection').click();

describeInBrowser('the drawer for developers and the diagnostics on the price page', () => {
  const services = onceForSuite(() => startServices({ env: { TICK_INTERVAL_MS: '50' } }));

  it("shows the last 50 frames as received, newest first, with their sizes, copies them, and never the token, and has snippets with the page's own address, of which the one for browsers streams", async () => {
    const { ticker, stream, apiKey } = services();
    const received: string[] = [];
    const prepare = async (page: Page) => {
      page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => received.push(String(payload))));
    };
    const page = await visit(ticker, { prepare });
    const token = await signIn(page, apiKey);
    await until(() => received.length > MAX_FRAMES + 10);
    await openDrawer(page);
    await page.getByRole('button', { name: 'Pause the frames' }).click();
    const texts = await part(page, 'frame-text').allTextContents();
    expect(texts).to.have.length(MAX_FRAMES);
    const all = await eventually(
      () => received.toReversed(),
      (frames) => frames.includes(texts[0] ?? ''),
    );
    const newest = all.indexOf(texts[0] ?? '');
    expect(texts).to.deep.equal(all.slice(newest, newest + MAX_FRAMES));
    const sizes = await part(page, 'frame-size').allTextContents();
    expect(sizes).to.deep.equal(texts.map((text) => `${Buffer.byteLength(text)} B`));
    const times = await part(page, 'frame-time').allTextContents();
    for (const time of times) expect(time).to.match(/^\d\d:\d\d:\d\d\.\d{3}$/);
    expect(await page.content()).to.not.include(token);

    const shown = await part(page, 'frames').textContent();
    const prices = () => part(page, 'board').textContent();
    await changes(prices, await prices());
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
  });

  it('opens and closes by keyboard, and so do the diagnostics; the focus comes back, nothing moves, and nothing scrolls sideways with text twice as large', async () => {
    const { ticker, apiKey } = services();
    const page = await visit(ticker);
    await signIn(page, apiKey);
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
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Developers' }).waitFor();
    expect(await part(page, 'diagnostics').isHidden()).to.equal(true);
    await page.keyboard.press('Escape');
    expect(await isFocused('connection')).to.equal(true);
    await page.keyboard.press('Space');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Escape');
    expect(await part(page, 'diagnostics').isHidden()).to.equal(true);
    expect(await isFocused('connection')).to.equal(true);

    const boxes = () =>
      page
        .locator('.masthead > :visible:not(.connection, .diagnostics), .tools > :visible, .price-card')
        .evaluateAll((all) =>
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

    await page.evaluate(() => {
      document.documentElement.style.fontSize = '200%';
    });
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
    const stream = imitateStream(() => START);
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
    expect(await reading(page, 'reconnects')).to.equal('1');
    expect(await reading(page, 'last-close')).to.match(/^1001: server is shutting down \(\d\d:\d\d:\d\d\)$/);

    await page.getByRole('button', { name: 'Close the diagnostics' }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await openDiagnostics(page);
    expect(await reading(page, 'token-expiry')).to.equal('no token');
    expect(await reading(page, 'tick-age')).to.equal('none yet');
  });
});
