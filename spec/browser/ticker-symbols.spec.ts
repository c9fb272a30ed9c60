import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { violations } from './accessibility.ts';
import { changes, describeInBrowser, expectFewShifts, part, reaches, recordShifts, signIn, visit } from './chromium.ts';
import { shown } from './ticker-page.ts';

const MIXED =
  'BTC-USD:42000,ETH-USD:2500,DOGE-USD:0.08123,XRP-EUR:0.5123,ETH-BTC:0.05123,GOLD:1999.5,A:1,B:1000000000000';
const LONGEST = `${'L'.repeat(16)}-${'S'.repeat(16)}:1000000000000`;
const MANY = `${LONGEST},${Array.from({ length: 63 }, (_, index) => `S${index + 10}-USD:${index + 10}`).join()}`;

/** Largest sum of layout shifts that Web Vitals call good, divided by ten. */
const MAX_SHIFT = 0.01;

const start = (symbols: string) =>
  startServices({ env: { TICKER_SYMBOLS: symbols, TICKER_SEED: 'x', TICK_INTERVAL_MS: '100' } });

/** Waits until nothing is beyond the page's width or cut off. Charts follow the width in the next frame. */
const fits = (page: Page) =>
  eventually(
    () =>
      page.evaluate(() =>
        [document.documentElement, ...document.querySelectorAll<HTMLElement>('.price-card, .price-card .price')]
          .filter((each) => each.scrollWidth > each.clientWidth)
          .map((each) => `${each.className}: ${each.textContent?.slice(0, 40)}`),
      ),
    (tooWide) => tooWide.length === 0,
  );

const visibleSymbols = (page: Page) => page.locator('.price-card:visible h2').allTextContents();

describeInBrowser('the ticker client with other symbols', () => {
  const services = onceForSuite(async () => ({ mixed: await start(MIXED), many: await start(MANY) }));

  it('shows each price in its currency and with its decimals', async () => {
    const { ticker, apiKey } = services().mixed;
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      const text = async (symbol: string) => (await shown(page, symbol, 'price'))?.replace(/\s/g, ' ') ?? '';
      for (const [symbol, format] of Object.entries({
        'BTC-USD': /^\$4[\d,]+\.\d\d$/,
        'DOGE-USD': /^\$0\.0\d{4}$/,
        'XRP-EUR': /^€0\.[45]\d{3}$/,
        'ETH-BTC': /^BTC 0\.0[45]\d{3}$/,
        GOLD: /^[12],\d{3}\.\d\d$/,
        B: /^[\d,]{15,17}\.\d\d$/,
      })) {
        await eventually(
          () => text(symbol),
          (found) => format.test(found),
        );
      }
      expect(await visibleSymbols(page)).to.have.length(8);
      expect(await part(page, 'filter').isVisible()).to.equal(false);
    });
  });

  for (const [number, kind, symbol] of [
    [8, 'mixed', 'BTC-USD'],
    [64, 'many', 'S72-USD'],
  ] as const) {
    it(`does not shift while it loads and ticks, fits on 320, 400 and 1280 pixels, and is accessible, with ${number} symbols`, async () => {
      const { ticker, apiKey } = services()[kind];
      await visit(ticker, { prepare: recordShifts }, async (page) => {
        // A price that nearly each tick changes, because a minute moves the cards a little.
        const price = () => shown(page, symbol, 'price');
        await page.getByLabel('Keep me signed in').check();
        await signIn(page, apiKey);
        await page.reload();
        await reaches(page, 'live');
        for (let tick = 0; tick < 5; tick++) await changes(price, await price());
        await expectFewShifts(page, MAX_SHIFT);
        expect(await visibleSymbols(page)).to.have.length(number);
        const middles = () =>
          page
            .locator('.tools > :visible')
            .evaluateAll((all) =>
              all.map((each) => each.getBoundingClientRect()).map(({ top, height }) => top + height / 2),
            );
        for (const name of ['Pause', 'Resume']) {
          const found = await middles();
          expect(Math.max(...found) - Math.min(...found), `all controls in one line, ${name}`).to.be.below(5);
          await page.getByRole('button', { name, exact: true }).click();
        }
        for (const width of [1280, 400, 320]) {
          await page.setViewportSize({ width, height: 800 });
          await fits(page);
        }
        expect(await violations(page)).to.deep.equal([]);
      });
    });
  }

  it('draws only the charts that are near, filters by symbol, and announces the eight that moved most', async () => {
    const { ticker, apiKey } = services().many;
    await visit(ticker, { width: 400 }, async (page) => {
      await signIn(page, apiKey);
      await page.locator('.price-card canvas').first().waitFor();
      expect(await page.locator('.price-card canvas').count()).to.be.within(5, 40);
      const last = page.locator('.price-card').last();
      expect(await last.locator('canvas').count()).to.equal(0);
      await last.scrollIntoViewIfNeeded();
      await last.locator('canvas').waitFor();

      await page.getByLabel('Announce prices').check();
      const announcement = await part(page, 'announcement').textContent();
      expect(announcement).to.match(/^(\S+ \S+, [^.]*(\.\d\d%)? since the page opened\. ){8}And 56 others\.$/);

      await page.getByLabel('Filter by symbol').fill(' s1');
      const found = await visibleSymbols(page);
      expect(found).to.deep.equal(Array.from({ length: 10 }, (_, index) => `S${index + 10}-USD`));
      await page.getByLabel('Filter by symbol').fill('');
      expect(await visibleSymbols(page)).to.have.length(64);
    });
  });
});
