import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { describeInBrowser, LOST, part, reaches, signIn, visit } from './chromium.ts';
import { itShowsFailedTasksAt } from './every-failed-state.ts';
import { itShowsTheTaskBoardAt, itShowsTheTickerAt } from './every-state.ts';

/** Compressed size in bytes of both pages with all their files. */
const MAX_WEIGHT = 162_000;

/** Returns the sum of the compressed sizes of a page and all that it has loaded. */
function weigh(page: Page): Promise<number> {
  return page.evaluate(() => {
    const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    return (entries as PerformanceResourceTiming[])
      .filter(({ name }) => name === location.href || /\.(js|css|svg|png)$/.test(name))
      .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0);
  });
}

describeInBrowser('both clients', () => {
  // presentation.long.ts covers other combinations.
  itShowsTheTickerAt(320, 'light');
  itShowsTheTaskBoardAt(1280, 'dark');
  itShowsFailedTasksAt(320, 'light');

  const services = onceForSuite(startServices);

  it('weigh less than 162 kB together, preload every module, and load nothing from elsewhere', async () => {
    const { ticker, tasks } = services();
    let weight = 0;
    for (const [url, usable] of [
      [ticker, '#api-key:focus'],
      [tasks, '[data-state="live"]'],
    ] as const) {
      const requested: string[] = [];
      const prepare = async (page: Page) => {
        page.on('request', (each) => requested.push(each.url()));
      };
      await visit(url, { prepare }, async (page) => {
        await page.locator(usable).waitFor();
        expect(requested.filter((each) => !each.startsWith(url))).to.deep.equal([]);

        const loaded = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
        weight += await weigh(page);
        const classic = await page
          .locator('script:not([type=module])')
          .evaluateAll((scripts) => scripts.map((script) => (script as HTMLScriptElement).src));
        expect(classic).to.deep.equal([`${url}/shared/theme.js`]);
        const modules = loaded.filter((name) => name.endsWith('.js') && !classic.includes(name));
        const preloaded = await page
          .locator('link[rel=modulepreload]')
          .evaluateAll((links) => links.map((link) => (link as HTMLLinkElement).href));
        expect(preloaded).to.have.members(modules);
      });
    }
    expect(weight, 'bytes').to.be.within(20_000, MAX_WEIGHT);
  });

  it('are served compressed, with icons that exist', async () => {
    for (const service of [services().ticker, services().tasks]) {
      for (const path of ['/', '/shared/design.css']) {
        const get = (encoding: string) => request(service + path, { headers: { 'Accept-Encoding': encoding } });
        const [gzip, brotli, plain] = [await get('gzip'), await get('gzip, deflate, br'), await get('identity')];
        expect([gzip, brotli].map(({ headers }) => headers.get('content-encoding'))).to.deep.equal(['gzip', 'br']);
        expect([gzip.body, brotli.body]).to.deep.equal([plain.body, plain.body]);
      }
      for (const [path, type] of Object.entries({ '/icon.svg': 'image/svg+xml', '/icon-180.png': 'image/png' })) {
        const { status, headers } = await request(service + path);
        expect([status, headers.get('content-type')]).to.deep.equal([200, type]);
      }
    }
  });

  it('show figures of equal width, and move nothing where reduced motion is preferred but something elsewhere', async () => {
    const { ticker, apiKey } = services();
    for (const reducedMotion of ['reduce', 'no-preference'] as const) {
      const network = await severable(ticker);
      await visit(network.url, { reducedMotion, tolerated: LOST }, async (page) => {
        await signIn(page, apiKey);
        const price = part(page, 'price').first();
        expect(await price.evaluate((each) => getComputedStyle(each).fontVariantNumeric)).to.equal('tabular-nums');
        network.cut();
        await reaches(page, 'reconnecting');
        const moving = await page.evaluate(() => document.getAnimations().length);
        expect(moving > 0, reducedMotion).to.equal(reducedMotion === 'no-preference');
      });
    }
  });
});
