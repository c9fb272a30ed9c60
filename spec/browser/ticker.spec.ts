import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { changes, expectFewShifts, part, partShows, reaches, recordShifts, signIn } from './page.ts';
import { imitateStream, START, shown } from './ticker-page.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];
const LONGEST = `${'L'.repeat(16)}-${'S'.repeat(16)}`;
const TICKER_SYMBOLS = `${LONGEST}:1000000000000,${Array.from({ length: 63 }, (_, index) => `S${index + 10}-USD:${index + 10}`).join()}`;

const visibleSymbols = (page: Page) => page.locator('.price-card:visible h2').allTextContents();

/** Returns a function that reads a price that changes with every tick. */
const price = (page: Page) => () => shown(page, 'BTC-USD', 'price');

describeInBrowser('the ticker client', () => {
  const services = onceForSuite(() => startServices({ env: { TICK_INTERVAL_MS: '100' } }));

  it('shows live prices from the exchange of the key until the user signs out, unless they are paused, and leaves nothing secret', async () => {
    const { ticker, apiKey } = services();
    const logged: string[] = [];
    const frames: string[] = [];
    const prepare = async (page: Page) => {
      page.on('console', (message) => logged.push(message.text()));
      page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => frames.push(String(payload))));
    };
    const page = await visit(ticker, { prepare, tolerated: /status of 401/ });
    const field = page.getByLabel('API key', { exact: true });
    expect(await field.getAttribute('autocomplete')).to.equal('current-password');
    expect(await page.locator('form [autocomplete=username]').count()).to.equal(1);
    expect(await page.locator('form').getAttribute('method')).to.equal('post');
    await page.getByRole('button', { name: 'Show the key' }).click();
    expect(await field.getAttribute('type')).to.equal('text');
    await page.getByRole('button', { name: 'Watch the prices' }).click();
    expect(await page.getByRole('alert').textContent()).to.equal('Enter the API key.');
    await field.fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('invalid API key').waitFor();
    expect(await field.getAttribute('aria-invalid')).to.equal('true');
    expect(await field.getAttribute('aria-describedby')).to.include(await page.getByRole('alert').getAttribute('id'));
    const token = await signIn(page, apiKey);
    expect(await field.inputValue()).to.equal('');
    const traces = await page.evaluate(() => {
      const stored = [{ ...localStorage }, { ...sessionStorage }, document.cookie];
      return JSON.stringify([location.href, stored, document.body.outerHTML]);
    });
    for (const secret of [apiKey, token]) expect(traces + logged.join()).to.not.include(secret);
    expect(await page.locator('.price-card h2').allTextContents()).to.deep.equal(SYMBOLS);
    expect(await part(page, 'filter').isVisible(), 'a filter for three symbols').to.equal(false);
    for (const symbol of SYMBOLS) {
      const read = () => shown(page, symbol, 'price');
      expect(await changes(read)).to.match(/^\$[\d,]+\.\d\d$/);
      const number = async (name: string) => Number((await shown(page, symbol, name))?.replace(/[$,]/g, ''));
      expect(await number('high')).to.be.at.least(await number('low'));
      await page.locator(`[data-symbol="${symbol}"] canvas`).waitFor();
    }
    expect(await part(page, 'change-since').first().textContent()).to.match(/^Change since \d\d:\d\d:\d\d$/);
    const change = part(page, 'change').and(page.locator('[data-direction=up], [data-direction=down]')).first();
    expect(await change.textContent()).to.match(/(up|down).*[+−<]\d+\.\d\d%.*[+−]\d+\.\d\d/s);
    expect(await change.locator('svg').boundingBox(), 'an arrow, beside the colour').to.include.keys('x');
    await partShows(page, 'round-trip', /^[\d.]+ ms$/);
    await changes(price(page));
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.evaluate(() => new Promise(requestAnimationFrame));
    const held = await part(page, 'board').textContent();
    const before = frames.length;
    await until(() => frames.length >= before + 5);
    await page.evaluate(() => new Promise(requestAnimationFrame));
    expect(await part(page, 'board').textContent()).to.equal(held);
    expect(await part(page, 'connection-text').textContent()).to.match(/^Paused \d\d:\d\d:\d\d$/);
    const quiet = page.locator('.price, .change');
    const greys = await quiet.evaluateAll((all) => all.map((each) => getComputedStyle(each).color));
    expect(new Set(greys), 'as grey as other quiet text').to.have.length(1);
    const stopped = await price(page)();
    await page.getByRole('button', { name: 'Resume' }).click();
    await changes(price(page), stopped);
    const region = part(page, 'announcement');
    expect(await page.locator('.board [aria-live], .board [role=status], .board [role=alert]').count()).to.equal(0);
    expect(await region.getAttribute('aria-live')).to.equal('polite');
    expect(await region.textContent()).to.equal('');
    await page.getByLabel('Announce prices').check();
    const summary = await region.textContent();
    expect(summary).to.match(/^BTC-USD \$[\d,.]+, .* since [\d:]+\. ETH-USD .* SOL-USD .*\.$/);
    await changes(price(page));
    expect(await region.textContent(), 'not each tick').to.equal(summary);
    const named = (title: RegExp) => until(async () => title.test(await page.title()));
    await named(/^\$[\d,]+\.\d\d BTC-USD · Ticker$/);
    await page.locator('[data-symbol="SOL-USD"] h2').click();
    await named(/^\$\d+\.\d\d SOL-USD · Ticker$/);
    await page.getByRole('button', { name: 'Pause' }).click();
    expect(await page.title()).to.equal('Ticker');
    await page.getByRole('button', { name: 'Resume' }).click();
    await named(/SOL-USD/);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await reaches(page, 'signed-out');
    const headers = { Authorization: `Bearer ${token}` };
    await until(async () => (await request(`${ticker}/prices/history`, { headers })).status === 401);
    await field.waitFor();
    expect(await part(page, 'sign-in-reason').isHidden()).to.equal(true);
    expect(await page.title()).to.equal('Ticker');
  });

  it('can be used by keyboard only, and shows time and price under the crosshair, for pointer and keyboard', async () => {
    const { ticker, apiKey } = services();
    const page = await visit(ticker);
    const focus = () =>
      page.evaluate(() => {
        const element = document.activeElement as HTMLElement;
        const visible = [element, element.nextElementSibling].some(
          (each) => each !== null && getComputedStyle(each).outlineStyle === 'solid',
        );
        return `${element.ariaLabel ?? element.closest('label')?.textContent ?? element.textContent}${visible ? '' : ' (invisible)'}`;
      });
    await page.keyboard.type(apiKey);
    await page.keyboard.press('Enter');
    await reaches(page, 'live');
    await page.locator('.price-card').first().waitFor();
    const stops: string[] = [];
    for (let stop = 0; stop < 14; stop++) {
      await page.keyboard.press('Tab');
      stops.push(await focus());
    }
    expect(stops.map((text) => text.replace(/\s+/g, ' ').trim())).to.deep.equal([
      '1 min',
      'Kind of chart',
      'Pause',
      'Announce prices',
      'Sign out demo',
      ...SYMBOLS.flatMap((symbol) => [`Star ${symbol}`, symbol, `Crosshair in the chart of ${symbol}`]),
    ]);
    for (let stop = 0; stop < 13; stop++) await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('ArrowRight');
    await page.locator('.readout', { hasText: 'Last 5 min' }).first().waitFor();
    for (const key of ['Tab', 'Tab', 'Space']) await page.keyboard.press(key);
    await reaches(page, 'paused');
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByLabel('1 min', { exact: true }).check();

    const chart = page.getByRole('slider', { name: 'Crosshair in the chart of BTC-USD' });
    await chart.and(page.locator(':not([aria-valuemax="0"])')).waitFor();
    await page.locator('[data-symbol="BTC-USD"] .readout', { hasText: /^Last 1 min$/ }).waitFor();
    // The chart has one point per second.
    const latest = () => chart.getAttribute('aria-valuemax');
    await changes(latest);
    const { x = 0, y = 0, width = 0, height = 0 } = (await page.locator('.u-over').first().boundingBox()) ?? {};
    await page.mouse.move(x + width - 2, y + height / 2);
    await page.locator('[data-symbol="ETH-USD"] .readout[data-point]').waitFor();
    expect(await shown(page, 'BTC-USD', 'readout')).to.match(/^\d\d:\d\d:\d\d {2}\$[\d,]+\.\d\d$/);
    await page.mouse.move(5, 5);
    await page.locator('[data-symbol="BTC-USD"] .readout:not([data-point])').waitFor();

    await chart.press('Home');
    const oldest = await chart.getAttribute('aria-valuetext');
    expect(oldest).to.match(/^\d\d:\d\d:\d\d {2}\$[\d,]+\.\d\d$/);
    await page.keyboard.press('ArrowRight');
    expect(await chart.getAttribute('aria-valuetext')).to.not.equal(oldest);
    for (const key of ['End', 'ArrowLeft']) await page.keyboard.press(key);
    const second = await chart.getAttribute('aria-valuenow');
    // A point keeps its price once its second has passed.
    await changes(latest);
    expect(await chart.getAttribute('aria-valuenow'), 'the crosshair does not move on').to.equal(second);
    const chosen = await shown(page, 'BTC-USD', 'readout');
    await changes(price(page));
    expect(await shown(page, 'BTC-USD', 'readout'), 'the crosshair stays at its second').to.equal(chosen);
    expect((await shown(page, 'SOL-USD', 'readout'))?.slice(0, 8), 'in all charts').to.equal(chosen?.slice(0, 8));
    await page.keyboard.press('Escape');
    expect(await chart.getAttribute('aria-valuetext')).to.equal('no point chosen');
  });
});

describeInBrowser('the ticker client with 64 symbols', () => {
  it('neither shifts nor overflows while it loads and ticks, and shows first what the user filters, sorts or stars', async () => {
    const env = { TICKER_SYMBOLS, TICKER_SEED: 'x', TICK_INTERVAL_MS: '500' };
    const { ticker, apiKey } = await startServices({ env });
    const page = await visit(ticker, { prepare: recordShifts });
    // A price that nearly each tick changes, because a minute moves the cards a little.
    const price = () => shown(page, 'S72-USD', 'price');
    await page.getByLabel('Keep me signed in').check();
    await signIn(page, apiKey);
    // A slow machine shows the page before its scripts run.
    await page.route('**/app.js', async (route) => {
      await page.waitForFunction(
        () => document.querySelector('.colophon')?.checkVisibility({ visibilityProperty: true }) === false,
      );
      await route.continue();
    });
    await page.reload();
    await reaches(page, 'live');
    for (let tick = 0; tick < 5; tick++) await changes(price);
    // A tenth of what Web Vitals call good.
    await expectFewShifts(page, 0.01);
    expect(await visibleSymbols(page)).to.have.length(64);
    for (const name of ['Pause', 'Resume']) {
      const controls = page.locator('.tools > :visible');
      const boxes = await controls.evaluateAll((all) => all.map((each) => each.getBoundingClientRect().toJSON()));
      const middles = boxes.map(({ top, height }) => top + height / 2);
      expect(Math.max(...middles) - Math.min(...middles), `all controls in one line, ${name}`).to.be.below(5);
      await page.getByRole('button', { name, exact: true }).click();
    }
    for (const width of [1280, 400, 320]) {
      await page.setViewportSize({ width, height: 800 });
      // Nothing is beyond the page's width or cut off. Charts follow the width in the next frame.
      await page.waitForFunction(() => {
        const all = [document.documentElement, ...document.querySelectorAll('.price-card, .price-card .price')];
        return all.every((each) => each.scrollWidth <= each.clientWidth);
      });
    }

    await page.setViewportSize({ width: 400, height: 800 });
    await page.locator('.price-card canvas').first().waitFor();
    expect(await page.locator('.price-card canvas').count()).to.be.within(5, 60);
    const last = page.locator('.price-card').last();
    expect(await last.locator('canvas').count()).to.equal(0);
    await last.scrollIntoViewIfNeeded();
    await last.locator('canvas').waitFor();

    await page.getByLabel('Announce prices').check();
    const announcement = await part(page, 'announcement').textContent();
    expect(announcement).to.match(/^(\S+ \S+, [^.]*(\.\d\d%)? (in 1 min|since [\d:]+)\. ){8}And 56 others\.$/);

    await page.getByLabel('Filter by symbol').fill(' s1');
    const found = await visibleSymbols(page);
    expect(found).to.deep.equal(Array.from({ length: 10 }, (_, index) => `S${index + 10}-USD`));
    await page.getByLabel('Filter by symbol').fill('');
    expect(await visibleSymbols(page)).to.have.length(64);

    await page.getByLabel('Sort by').selectOption('By price');
    const byPrice = await visibleSymbols(page);
    expect([byPrice[0], byPrice.at(-1)]).to.deep.equal([LONGEST, 'S10-USD']);
    await page.getByRole('button', { name: 'Star S40-USD' }).click();
    expect((await visibleSymbols(page))[0]).to.equal('S40-USD');
    await page.getByLabel('Sort by').selectOption('By change');
    const shares = await page.locator('.price-card:not(:first-child) [data-part="share"]').allTextContents();
    const rising = shares.map((share) => Number.parseFloat(share.replace('−', '-').replace('<', '')));
    expect(rising[0], 'the largest rise').to.be.above(0);
    expect(rising.at(-1), 'the largest fall').to.be.below(0);
    // The rows stand still under the pointer.
    await page.locator('.price-card').nth(1).hover();
    const held = await visibleSymbols(page);
    const newest = async () => Number(await page.getByRole('slider').first().getAttribute('aria-valuemax'));
    const turn = async () => Math.floor((await newest()) / 5);
    const now = await turn();
    await until(async () => (await turn()) > now);
    expect(await visibleSymbols(page)).to.deep.equal(held);
    await page.reload();
    await reaches(page, 'live');
    expect((await visibleSymbols(page))[0], 'kept over a reload, like the order').to.equal('S40-USD');
    expect(await page.getByLabel('Sort by').inputValue()).to.equal('change');
    await page.getByRole('button', { name: 'Star S40-USD', pressed: true }).click();
    expect(await page.evaluate(() => ({ ...localStorage }))).to.deep.equal({});
  });
});

/** Text that a page has drawn on the chart of a symbol, or without a symbol on a picture that is saved. */
type DrawnText = { symbol: string; text: string; x: number };

/** Records the texts that the page draws on canvases. Call it before the page loads. */
const recordDrawnTexts = (page: Page) =>
  page.addInitScript(() => {
    const drawn = new Map<HTMLCanvasElement, DrawnText[]>();
    Object.assign(window, { drawnTexts: () => [...drawn.values()].flat() });
    const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...area) {
      drawn.delete(this.canvas);
      clearRect.apply(this, area);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
      const { symbol = '' } = this.canvas.closest<HTMLElement>('.price-card')?.dataset ?? {};
      drawn.set(this.canvas, [...(drawn.get(this.canvas) ?? []), { symbol, text, x }]);
      fillText.call(this, text, x, y, ...more);
    };
  });

async function drawnTexts(page: Page, symbol = 'BTC-USD'): Promise<DrawnText[]> {
  // @ts-expect-error: defined above
  const all: DrawnText[] = await page.evaluate(() => window.drawnTexts());
  return all.filter((each) => each.symbol === symbol && each.text !== '');
}

/** A minute of prices that go up and down by a few cents. */
const TICKS = Array.from({ length: 60 }, (_, index) => [START - 60 + index, 100 + ((index * 7) % 10) / 100] as const);

const isTime = (text: string) => /^\d\d:\d\d(:\d\d)?$/.test(text);
const toNumber = (text: string) => Number(text.replaceAll(',', ''));

/** Returns the labels of the price axis, which are right of the plot, without that of the newest price. */
async function priceLabels(page: Page): Promise<string[]> {
  const texts = (await drawnTexts(page)).filter(({ text }) => !isTime(text)).map(({ text }) => text);
  return texts.slice(0, -1);
}

describeInBrowser('a chart of the ticker client', () => {
  const services = onceForSuite(startServices);

  async function open(past: (readonly [second: number, price: number])[]) {
    const { ticker, apiKey } = services();
    const stream = imitateStream(() => START, 60_000);
    const prepare = async (page: Page) => {
      await recordDrawnTexts(page);
      // Otherwise the charts move on.
      await page.clock.setFixedTime(Date.now());
      await stream.prepare(page, past);
    };
    const page = await visit(ticker, { prepare });
    await signIn(page, apiKey);
    await page.getByText('Last 1 min', { exact: true }).waitFor();
    await partShows(page, 'change-since', 'Change in 1 min');
    return { page, stream };
  }

  it('shows the prices of its time span from the history, with an axis in steps of 1, 2 or 5 times a power of ten and a label of the newest price, also while it is low, resized and paused', async () => {
    const { page, stream } = await open([[START - 7_200, 400], [START - 800, 200], ...TICKS]);
    const changes = async () => [await shown(page, 'BTC-USD', 'change-since'), await shown(page, 'BTC-USD', 'share')];
    expect(await changes()).to.deep.equal(['Change in 1 min', '0.00%']);
    await page.getByLabel('15 min').check();
    await partShows(page, 'high', '$200.00');
    const [since, share] = await changes();
    expect(since, 'the start of the history').to.match(/^Change since \d\d:\d\d:\d\d$/);
    expect(share).to.equal('−50.00%');
    await page.getByLabel('24 h').check();
    await partShows(page, 'high', '$400.00');
    expect((await changes())[1]).to.equal('−75.00%');
    expect(stream.requested).to.deep.equal(['900', '900', '86400']);
    await page.getByLabel('1 min', { exact: true }).check();

    for (const [index, spread] of [0.02, 0.07, 0.3, 1.3, 11, 40].entries()) {
      stream.send(START + 1 + index, 100 + spread);
      const price = (100 + spread).toFixed(2);
      await page.getByText(`$${price}`).first().waitFor();
      await until(async () => (await drawnTexts(page)).at(-1)?.text === price);
      const labels = (await priceLabels(page)).map(toNumber).toSorted((a, b) => a - b);
      expect(labels, `spread ${spread}`).to.have.length.above(2);
      const steps = labels.slice(1).map((label, at) => label - (labels[at] ?? 0));
      const step = Math.min(...steps);
      expect(Number((step / 10 ** Math.floor(Math.log10(step) + 1e-6)).toFixed(4))).to.be.oneOf([1, 2, 5]);
      for (const label of labels)
        expect(label / step, `${label} in steps of ${step}`).to.be.closeTo(Math.round(label / step), 1e-6);
    }
    // The next price is within the candle, so no scale changes.
    await page.getByLabel('Kind of chart').selectOption('Candles, 1 min');
    await page.getByText('Last 1 min, candles of 1 min').waitFor();
    const [covered] = (await priceLabels(page)).toSorted();
    stream.send(START + 10, toNumber(covered ?? '') + 0.01);
    await until(async () => {
      const texts = (await drawnTexts(page)).map(({ text }) => text);
      return texts.at(-1) === (toNumber(covered ?? '') + 0.01).toFixed(2) && !texts.includes(covered ?? '');
    });

    await page.getByLabel('Kind of chart').selectOption('Line');
    await page.getByText('Last 1 min', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await reaches(page, 'paused');
    for (const width of [600, 2000, 400]) {
      await page.setViewportSize({ width, height: 800 });
      // A wider chart has labels farther to the right.
      await until(async () => {
        const { width: canvas = 0 } = (await page.locator('canvas').boundingBox()) ?? {};
        const times = (await drawnTexts(page)).filter(({ text }) => isTime(text));
        const place = (times.at(-1)?.x ?? 0) / canvas;
        return times.length > 1 && place > 0.6 && place < 1;
      });
    }
    await page.getByRole('button', { name: 'Resume' }).click();
    await reaches(page, 'live');
    await page.setViewportSize({ width: 1280, height: 600 });
    stream.send(START + 11, 107);
    await page.getByText('$107.00').first().waitFor();
    await until(async () => (await priceLabels(page)).length > 1);
  });

  it('shows candles with their prices under the crosshair, which follows a finger; is opened large by a click, zooms and pans, is saved as a PNG, and has an address', async () => {
    const { page } = await open(TICKS);
    await page.getByLabel('Kind of chart').selectOption('Candles, 15 s');
    await page.getByText('Last 1 min, candles of 15 s').waitFor();
    const chart = page.getByRole('slider');
    // The chart may be drawn again after the first press.
    await until(async () => {
      await chart.press('Home');
      return Number(await chart.getAttribute('aria-valuenow')) === START - 45;
    });
    expect(await shown(page, 'BTC-USD', 'readout')).to.match(/\$100\.03$/);
    const prices = 'O\u00a0100.05  H\u00a0100.09  L\u00a0100.00  C\u00a0100.03  −0.02%';
    expect(await shown(page, 'BTC-USD', 'candle-readout')).to.equal(prices);
    expect(await chart.getAttribute('aria-valuetext')).to.include(prices);

    await page.getByLabel('Kind of chart').selectOption('Candles, 5 s');
    await page.locator('.price-card .u-over').click();
    const back = page.getByRole('link', { name: 'All prices' });
    await back.waitFor();
    expect(new URL(page.url()).search).to.equal('?symbol=BTC-USD&candles=5s');
    expect(await back.evaluate((each) => each.matches(':focus'))).to.equal(true);
    const edges = () =>
      Promise.all(['aria-valuemin', 'aria-valuemax'].map(async (name) => Number(await chart.getAttribute(name))));
    const becomes = (fits: (from: number, to: number) => boolean) =>
      eventually(edges, ([from = 0, to = 0]) => fits(from, to));
    const [left = 0, last = 0] = await becomes((from, to) => to - from === 60);
    // Until the large chart is drawn, nothing takes its keys.
    await page.locator('.u-over').waitFor();
    await chart.press('+');
    await becomes((from, to) => to - from === 48);
    await chart.press('Shift+ArrowLeft');
    const [panned = 0] = await becomes((_, to) => to < last - 10);
    await chart.press('Shift+ArrowRight');
    await becomes((from) => from > panned);
    await page.getByRole('button', { name: 'Zoom in' }).click();
    await becomes((from, to) => to - from === 24);
    const { x = 0, y = 0, width = 0, height = 0 } = (await page.locator('.u-over').boundingBox()) ?? {};
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.mouse.wheel(0, 2_000);
    await becomes((from, to) => from === START - 60 && to === last);
    await page.mouse.wheel(0, -300);
    const [, right = 0] = await becomes((from, to) => to - from < 40);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.7, y + height / 2, { steps: 3 });
    await page.mouse.up();
    await becomes((_, to) => to < right);
    await page.getByRole('button', { name: 'Now' }).click();
    await becomes((from, to) => from === left && to === last);

    const saving = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save as PNG' }).click();
    const saved = await saving;
    expect(saved.suggestedFilename()).to.match(/^BTC-USD \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d to [\d-]+ [\d.]+\.png$/);
    const picture = await readFile(await saved.path());
    expect(picture.subarray(1, 4).toString()).to.equal('PNG');
    const canvas = await page.locator('canvas').evaluate((each) => (each as HTMLCanvasElement).width);
    expect(picture.readUInt32BE(16), 'wider than the chart').to.be.above(canvas);
    const texts = (await drawnTexts(page, '')).map(({ text }) => text);
    expect(texts.slice(0, 2)).to.deep.equal(['BTC-USD', '$100.00']);
    expect(texts.slice(2).join()).to.match(/^[\d-]+ [\d:]+ to [\d-]+ [\d:]+,0\.00% in 1 min$/);

    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Emulation.setTouchEmulationEnabled', { enabled: true });
    const touch = (kind: 'Start' | 'Move' | 'End', touchPoints: { x: number; y: number }[]) =>
      devtools.send('Input.dispatchTouchEvent', { type: `touch${kind}`, touchPoints });
    const fingers = (distance: number) =>
      [-1, 1].map((side) => ({ x: x + width * (0.5 + side * distance), y: y + height / 2 }));
    await touch('Start', fingers(0.1));
    for (const distance of [0.2, 0.3]) await touch('Move', fingers(distance));
    await becomes((from, to) => to - from < 45);
    await touch('End', []);

    await page.goBack();
    await page.locator('h2 a:focus', { hasText: 'BTC-USD' }).waitFor();
    expect(new URL(page.url()).search).to.equal('?candles=5s');

    await page.getByLabel('Kind of chart').selectOption('Line');
    await page.getByText('Last 1 min', { exact: true }).waitFor();
    await chart.press('Escape');
    await page.locator('.readout:not([data-point])').waitFor();

    const small = (await page.locator('.u-over').boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const at = (share: number) => [{ x: small.x + share * small.width, y: small.y + small.height / 2 }];
    const chosen = () => chart.getAttribute('aria-valuenow').then(Number);
    await touch('Start', at(0.2));
    const start = await eventually(chosen, (second) => second < START - 40);
    for (const share of [0.3, 0.5, 0.7]) await touch('Move', at(share));
    const end = await eventually(chosen, (second) => second > start + 20);
    await touch('End', []);
    expect(await chosen()).to.equal(end);
    await page.locator('.readout[data-point]').waitFor();
    const elsewhere = (await part(page, 'price').boundingBox()) ?? { x: 0, y: 0 };
    await touch('Start', [{ x: elsewhere.x + 5, y: elsewhere.y + 5 }]);
    await touch('End', []);
    await page.locator('.readout:not([data-point])').waitFor();
  });
});
