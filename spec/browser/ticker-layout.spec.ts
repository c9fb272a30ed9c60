import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { changes, describeInBrowser, part, reaches, signIn, visit } from './chromium.ts';

const MANY = Array.from({ length: 64 }, (_, index) => `S${index + 10}-USD:${index + 10}`).join();
/** Largest sum of layout shifts that Web Vitals call good, divided by ten. */
const MAX_SHIFT = 0.01;

/** Adds up the layout shifts that no input has caused. */
const recordShifts = (page: Page) =>
  page.addInitScript(() => {
    const shifts = { sum: 0 };
    Object.assign(window, { shifts });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { value, hadRecentInput } = entry as PerformanceEntry & { value: number; hadRecentInput: boolean };
        if (!hadRecentInput) shifts.sum += value;
      }
    }).observe({ type: 'layout-shift', buffered: true });
  });

// @ts-expect-error: defined above
const shifts = (page: Page): Promise<number> => page.evaluate(() => window.shifts.sum);

describeInBrowser('the layout of the ticker client', () => {
  const TICK_INTERVAL_MS = '100';
  const services = onceForSuite(async () => ({
    few: await startServices({ env: { TICK_INTERVAL_MS } }),
    many: await startServices({ env: { TICK_INTERVAL_MS, TICKER_SYMBOLS: MANY } }),
  }));

  for (const [number, kind] of [
    [3, 'few'],
    [64, 'many'],
  ] as const) {
    it(`does not shift while it loads, signs in and ticks, with ${number} symbols`, async () => {
      const { ticker, apiKey } = services()[kind];
      await visit(ticker, { prepare: recordShifts }, async (page) => {
        const price = () => part(page, 'price').first().textContent();
        await page.getByLabel('Keep me signed in').check();
        await signIn(page, apiKey);
        await page.reload();
        await reaches(page, 'live');
        for (let tick = 0; tick < 5; tick++) await changes(price, await price());
        expect(await shifts(page)).to.be.below(MAX_SHIFT);
      });
    });
  }

  it('has all controls in one line at 1280 pixels, also while paused, with 64 symbols', async () => {
    const { ticker, apiKey } = services().many;
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      const tops = () =>
        page
          .locator('.tools > :visible')
          .evaluateAll((all) =>
            all.map((each) => each.getBoundingClientRect()).map(({ top, height }) => top + height / 2),
          );
      for (const state of ['live', 'paused']) {
        const middles = await tops();
        expect(Math.max(...middles) - Math.min(...middles), state).to.be.below(5);
        if (state === 'live') await page.getByRole('button', { name: 'Pause' }).click();
      }
    });
  });

  it('names the tab after the price of the first symbol, or the selected one, while it is current', async () => {
    const { ticker, apiKey } = services().few;
    await visit(ticker, {}, async (page) => {
      expect(await page.title()).to.equal('Ticker');
      await signIn(page, apiKey);
      await eventually(
        () => page.title(),
        (title) => /^\$[\d,]+\.\d\d BTC-USD · Ticker$/.test(title),
      );
      await page.locator('[data-symbol="SOL-USD"] h2').click();
      await eventually(
        () => page.title(),
        (title) => /^\$\d+\.\d\d SOL-USD · Ticker$/.test(title),
      );
      await page.getByRole('button', { name: 'Pause' }).click();
      expect(await page.title()).to.equal('Ticker');
      await page.getByRole('button', { name: 'Resume' }).click();
      await eventually(
        () => page.title(),
        (title) => title.includes('SOL-USD'),
      );
      await page.getByRole('button', { name: 'Sign out' }).click();
      await reaches(page, 'signed-out');
      expect(await page.title()).to.equal('Ticker');
    });
  });
});
