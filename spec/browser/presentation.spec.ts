import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, LOST, part, reaches, signIn, visit } from './chromium.ts';
import { itShowsTheTaskBoardAt, itShowsTheTickerAt } from './every-state.ts';

const MAX_WEIGHT = 150_000;
/** Longest time until the page is usable. An idle machine needs a tenth of it. */
const MAX_USABLE_MS = 10_000;

/** Notes the encoded size in bytes of every response that the page has loaded to its end, by URL. */
async function weigh(page: Page, weights: Map<string, number>): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Network.enable');
  const urls = new Map<string, string>();
  devtools.on('Network.requestWillBeSent', ({ requestId, request }) => urls.set(requestId, request.url));
  devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const url = urls.get(requestId) ?? requestId;
    weights.set(url, (weights.get(url) ?? 0) + encodedDataLength);
  });
}

describeInBrowser('both clients', () => {
  // presentation.long.ts covers the other combinations.
  itShowsTheTickerAt(320, 'light');
  itShowsTheTaskBoardAt(1280, 'dark');

  const services = onceForSuite(startServices);

  it('weigh less than 150 kB each, preload every module, load nothing from elsewhere, and can be used soon', async () => {
    const { ticker, tasks } = services();
    for (const [url, usable] of [
      [ticker, '#api-key:focus'],
      [tasks, '[data-state="live"]'],
    ] as const) {
      const weights = new Map<string, number>();
      const requested: string[] = [];
      const prepare = async (page: Page) => {
        await weigh(page, weights);
        page.on('request', (each) => requested.push(each.url()));
        await page.addInitScript((selector) => {
          const look = () => {
            if (document.querySelector(selector) === null) requestAnimationFrame(look);
            else performance.mark('usable');
          };
          look();
        }, usable);
      };
      await visit(url, { prepare }, async (page) => {
        const mark = await page.waitForFunction(() => performance.getEntriesByName('usable')[0]?.startTime);
        expect(await mark.jsonValue(), `${url}: milliseconds until it can be used`).to.be.within(1, MAX_USABLE_MS);
        expect(requested.filter((each) => !each.startsWith(url))).to.deep.equal([]);

        const loaded = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
        await until(() => [`${url}/`, ...loaded].every((each) => weights.has(each)));
        const weight = [...weights.values()].reduce((sum, each) => sum + each, 0);
        expect(weight, `${url}: bytes`).to.be.within(10_000, MAX_WEIGHT);

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
  });

  it('are served with a strict policy, compressed, and not again while the copy holds', async () => {
    const { ticker, tasks } = services();
    for (const url of [`${ticker}/`, `${ticker}/some/page`, `${tasks}/`, `${tasks}/shared/design.css`]) {
      const { status, headers } = await request(url, { headers: { 'Accept-Encoding': 'gzip' } });
      expect(status).to.equal(200);
      const policy = headers.get('content-security-policy');
      expect(policy)
        .to.include("default-src 'none'")
        .and.to.not.match(/unsafe|\*|https?:/);
      expect(headers.get('x-content-type-options')).to.equal('nosniff');
      expect(headers.get('content-encoding')).to.equal('gzip');
      expect(headers.get('vary')).to.include('Accept-Encoding');
      const modified = headers.get('last-modified') ?? '';
      // fetch would add `Cache-Control: no-cache`, which prevents a 304.
      const again = get(url, { agent: false, headers: { 'If-Modified-Since': modified } });
      const [answer] = (await once(again, 'response')) as [IncomingMessage];
      answer.resume();
      expect(answer.statusCode).to.equal(304);
    }
  });

  it('have icons that exist', async () => {
    const { ticker, tasks } = services();
    for (const url of [ticker, tasks]) {
      for (const [path, type] of Object.entries({ '/icon.svg': 'image/svg+xml', '/icon-180.png': 'image/png' })) {
        const { status, headers } = await request(url + path);
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
