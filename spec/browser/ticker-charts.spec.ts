import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, part, partShows, reaches, signIn, visit } from './chromium.ts';
import { imitateStream, START, shown } from './ticker-page.ts';

/** Text that a page has drawn on the chart of a symbol, or without a symbol on a picture that is saved. */
interface DrawnText {
  symbol: string;
  text: string;
  x: number;
}

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

/** Returns the non-empty texts that are on the canvas of a symbol's chart. */
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
  /** Opens the page with a stream whose past is given. */
  async function open(past: Parameters<ReturnType<typeof imitateStream>['prepare']>[1]) {
    const { ticker, apiKey } = services();
    const stream = imitateStream(() => START, 60_000);
    const requested: (string | null)[] = [];
    const prepare = async (page: Page) => {
      page.on('request', (each) => {
        if (each.url().includes('/prices/history')) requested.push(new URL(each.url()).searchParams.get('seconds'));
      });
      await recordDrawnTexts(page);
      // Otherwise the charts move on.
      await page.clock.setFixedTime(Date.now());
      await stream.prepare(page, past);
    };
    const page = await visit(ticker, { prepare });
    await signIn(page, apiKey);
    await page.getByText('Last 1 min', { exact: true }).waitFor();
    await partShows(page, 'low', '$100.00');
    return { page, stream, requested };
  }

  it('shows the prices of its time span from the history, with an axis in steps of 1, 2 or 5 times a power of ten and a label of the newest price, also while it is low, resized and paused', async () => {
    const { page, stream, requested } = await open([[START - 7_200, 400], [START - 800, 200], ...TICKS]);
    expect(await page.getByText('Last 1 min', { exact: true }).count()).to.equal(1);
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
    expect(requested).to.deep.equal(['900', '900', '86400']);
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
      for (const label of labels) expect((label / step) % 1, `${label} in steps of ${step}`).to.satisfy(isNearlyWhole);
    }
    // The next price is within the candle, so no scale changes.
    await page.getByLabel('Kind of chart').selectOption('Candles, 1 min');
    await page.getByText('Last 1 min, candles of 1 min').waitFor();
    const [covered] = (await priceLabels(page)).toSorted();
    stream.send(START + 10, toNumber(covered ?? '') + 0.01);
    await eventually(
      async () => (await drawnTexts(page)).map(({ text }) => text),
      (texts) => texts.at(-1) === (toNumber(covered ?? '') + 0.01).toFixed(2) && !texts.includes(covered ?? ''),
    );

    await page.getByLabel('Kind of chart').selectOption('Line');
    await page.getByText('Last 1 min', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await reaches(page, 'paused');
    for (const width of [600, 2000, 400]) {
      await page.setViewportSize({ width, height: 800 });
      // A wider chart has labels farther to the right.
      await eventually(
        async () => {
          const { width: canvas = 0 } = (await page.locator('canvas').boundingBox()) ?? {};
          const times = (await drawnTexts(page)).filter(({ text }) => isTime(text));
          return times.length > 1 ? (times.at(-1)?.x ?? 0) / canvas : 0;
        },
        (place) => place > 0.6 && place < 1,
      );
    }
    await page.getByRole('button', { name: 'Resume' }).click();
    await reaches(page, 'live');
    await page.setViewportSize({ width: 1280, height: 600 });
    stream.send(START + 11, 107);
    await page.getByText('$107.00').first().waitFor();
    await until(async () => (await priceLabels(page)).length > 1);
    stream.send(START + 13, 1_000_000);
    await page.getByText('$1,000,000.00').first().waitFor();
    stream.send(START + 73, 999_999.86);
    await partShows(page, 'change', '−0.14');
    expect(await shown(page, 'BTC-USD', 'share'), 'no zero beside a change').to.equal('−<0.01%');
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

const isNearlyWhole = (fraction: number) => Math.min(fraction, 1 - fraction) < 1e-6;
