import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import {
  changes,
  describeInBrowser,
  expectFewShifts,
  part,
  partShows,
  reaches,
  recordShifts,
  signIn,
  visit,
} from './chromium.ts';
import { shown } from './ticker-page.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];
const LONGEST = `${'L'.repeat(16)}-${'S'.repeat(16)}`;
/** The largest number of symbols. */
const TICKER_SYMBOLS = `${LONGEST}:1000000000000,${Array.from({ length: 63 }, (_, index) => `S${index + 10}-USD:${index + 10}`).join()}`;

/** Largest sum of layout shifts that Web Vitals call good, divided by ten. */
const MAX_SHIFT = 0.01;

/** Waits until nothing is beyond the page's width or cut off. Charts follow the width in the next frame. */
const fits = (page: Page) =>
  page.waitForFunction(() =>
    [document.documentElement, ...document.querySelectorAll('.price-card, .price-card .price')].every(
      (each) => each.scrollWidth <= each.clientWidth,
    ),
  );

const visibleSymbols = (page: Page) => page.locator('.price-card:visible h2').allTextContents();

/** Returns a function that reads a price that changes with every tick. */
const price = (page: Page) => () => shown(page, 'BTC-USD', 'price');

describeInBrowser('the ticker client', () => {
  it('exchanges the key for live prices, leaves nothing secret, freezes the prices while paused, announces a summary only if asked to, can be used by keyboard only, and shows time and price under the crosshair', async () => {
    const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '100' } });
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
    expect(token).to.have.length.above(100);
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
      expect(await page.locator(`[data-symbol="${symbol}"] canvas`).count()).to.equal(1);
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

    await page.goto(ticker);
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
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Space');
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

    await chart.focus();
    await page.keyboard.press('Home');
    const oldest = await chart.getAttribute('aria-valuetext');
    expect(oldest).to.match(/^\d\d:\d\d:\d\d {2}\$[\d,]+\.\d\d$/);
    await page.keyboard.press('ArrowRight');
    expect(await chart.getAttribute('aria-valuetext')).to.not.equal(oldest);
    // A point keeps its price once its second has passed.
    await changes(latest);
    const chosen = await shown(page, 'BTC-USD', 'readout');
    await changes(price(page));
    expect(await shown(page, 'BTC-USD', 'readout'), 'the crosshair stays at its second').to.equal(chosen);
    expect((await shown(page, 'SOL-USD', 'readout'))?.slice(0, 8), 'in all charts').to.equal(chosen?.slice(0, 8));
    await page.keyboard.press('Escape');
    expect(await chart.getAttribute('aria-valuetext')).to.equal('no point chosen');
  });
});

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
    for (let tick = 0; tick < 5; tick++) await changes(price);
    await expectFewShifts(page, MAX_SHIFT);
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
    const newest = async () => Number(await page.getByRole('slider').first().getAttribute('aria-valuemax'));
    const turn = async () => Math.floor((await newest()) / 5);
    const now = await turn();
    await until(async () => (await turn()) > now);
    expect(await visibleSymbols(page)).to.deep.equal(held);
    await page.reload();
    await reaches(page, 'live');
    expect((await first(1))[0], 'kept over a reload, like the order').to.equal('S40-USD');
    expect(await page.getByLabel('Sort by').inputValue()).to.equal('change');
    await page.getByRole('button', { name: 'Star S40-USD', pressed: true }).click();
    expect(await page.evaluate(() => ({ ...localStorage }))).to.deep.equal({});
  });
});
