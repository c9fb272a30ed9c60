import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { changes, describeInBrowser, expectFewShifts, part, reaches, recordShifts, signIn, visit } from './chromium.ts';
import { shown } from './ticker-page.ts';

const LONGEST = `${'L'.repeat(16)}-${'S'.repeat(16)}`;
/** The largest number of symbols. */
const TICKER_SYMBOLS = `${LONGEST}:1000000000000,${Array.from({ length: 63 }, (_, index) => `S${index + 10}-USD:${index + 10}`).join()}`;

/** Largest sum of layout shifts that Web Vitals call good, divided by ten. */
const MAX_SHIFT = 0.01;

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

describeInBrowser('the ticker client with 64 symbols', () => {
  it('does not shift while it loads and ticks, fits, draws only the charts that are near, filters, sorts and stars, and announces the eight that moved most', async () => {
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
    for (let tick = 0; tick < 5; tick++) await changes(price, await price());
    await expectFewShifts(page, MAX_SHIFT);
    expect(await visibleSymbols(page)).to.have.length(64);
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

    const first = (count: number) => visibleSymbols(page).then((symbols) => symbols.slice(0, count));
    await page.getByLabel('Sort by').selectOption('By price');
    const byPrice = await visibleSymbols(page);
    expect([byPrice[0], byPrice.at(-1)]).to.deep.equal([LONGEST, 'S10-USD']);
    await page.getByRole('button', { name: 'Star S40-USD' }).click();
    expect((await first(1))[0]).to.equal('S40-USD');
    await page.getByLabel('Sort by').selectOption('By change');
    const shares = await page.locator('.price-card:not(:first-child) [data-part="share"]').allTextContents();
    const rising = shares.map((share) => Number.parseFloat(share.replace('−', '-').replace('<', '')));
    expect(rising[0], 'the largest rise').to.be.above(0);
    expect(rising.at(-1), 'the largest fall').to.be.below(0);
    // The rows stand still under the pointer.
    await page.locator('.price-card').nth(1).hover();
    const held = await visibleSymbols(page);
    const turn = () =>
      page
        .getByRole('slider')
        .first()
        .getAttribute('aria-valuemax')
        .then((second) => Math.floor(Number(second) / 5));
    const now = await turn();
    await eventually(turn, (each) => each > now);
    expect(await visibleSymbols(page)).to.deep.equal(held);
    await page.reload();
    await reaches(page, 'live');
    expect((await first(1))[0], 'kept over a reload, like the order').to.equal('S40-USD');
    expect(await page.getByLabel('Sort by').inputValue()).to.equal('change');
    await page.getByRole('button', { name: 'Star S40-USD', pressed: true }).click();
    expect(await page.evaluate(() => ({ ...localStorage }))).to.deep.equal({});
  });
});
