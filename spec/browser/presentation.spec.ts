import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { eventually, until } from '../support/until.ts';
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

const DARK = 'rgb(13, 17, 23)';
const LIGHT = 'rgb(244, 246, 248)';

const ground = (page: Page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const choose = (page: Page, theme: string) => page.getByLabel('Theme').selectOption(theme);

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

  it('show figures of equal width, charts in the colours of the chosen theme at once, and no motion where reduced motion is preferred but some elsewhere', async () => {
    const { ticker, apiKey } = services();
    const network = await severable(ticker);
    const tolerated = new RegExp(`${LOST.source}|willReadFrequently`);
    await visit(network.url, { colorScheme: 'light', tolerated }, async (page) => {
      await signIn(page, apiKey);
      const price = part(page, 'price').first();
      expect(await price.evaluate((each) => getComputedStyle(each).fontVariantNumeric)).to.equal('tabular-nums');
      const canvas = page.locator('canvas').first();
      const colours = () =>
        canvas.evaluate((chart: HTMLCanvasElement) => {
          const pixels = chart.getContext('2d')?.getImageData(0, 0, chart.width, chart.height).data ?? [];
          const found = new Set<string>();
          for (let at = 0; at < pixels.length; at += 4)
            if (pixels[at + 3] === 255) found.add(`${pixels[at]},${pixels[at + 1]},${pixels[at + 2]}`);
          return [...found];
        });
      await page.getByRole('button', { name: 'Pause' }).click();
      expect(await colours()).to.include('36,88,211');
      await choose(page, 'Dark');
      await eventually(colours, (found) => found.includes('126,168,255') && !found.includes('36,88,211'));
      await choose(page, 'System');
      await page.getByRole('button', { name: 'Resume' }).click();

      network.cut();
      await reaches(page, 'reconnecting');
      const isMoving = () => page.evaluate(() => document.getAnimations().length > 0);
      expect(await isMoving()).to.equal(false);
      await page.emulateMedia({ reducedMotion: 'no-preference' });
      await eventually(isMoving, (moving) => moving);
    });
  });

  it('have the theme of the system until another is chosen, which holds after a reload and in other tabs, but not on paper', async () => {
    const url = services().tasks;
    await visit(url, { colorScheme: 'light' }, async (page) => {
      expect(await page.getByLabel('Theme').inputValue()).to.equal('');
      expect(await ground(page)).to.equal(LIGHT);
      await page.emulateMedia({ colorScheme: 'dark' });
      expect(await ground(page)).to.equal(DARK);

      await choose(page, 'Light');
      expect(await ground(page)).to.equal(LIGHT);
      const tab = await page.context().newPage();
      await tab.emulateMedia({ colorScheme: 'light' });
      await tab.goto(url);
      await choose(page, 'Dark');
      await until(async () => (await ground(tab)) === DARK);
      expect(await tab.getByLabel('Theme').inputValue()).to.equal('dark');
      await tab.close();
      await page.emulateMedia({ colorScheme: 'light' });
      await page.reload();
      expect(await ground(page)).to.equal(DARK);
      await page.emulateMedia({ media: 'print' });
      expect(await ground(page), 'on paper').to.equal(LIGHT);
      await page.emulateMedia({ media: 'screen' });
      await choose(page, 'System');
      expect(await ground(page)).to.equal(LIGHT);
      expect(await page.evaluate(() => ({ ...localStorage }))).to.deep.equal({});
    });
  });

  it('apply the theme before the first paint, without inline code', async () => {
    await visit(services().tasks, { colorScheme: 'light' }, async (page) => {
      await choose(page, 'Dark');
      const colours = await page
        .locator('meta[name="theme-color"][media="all"]')
        .evaluateAll((metas) => metas.map((meta) => (meta as HTMLMetaElement).content));
      expect(colours).to.deep.equal(['#0d1117']);
      // Modules run only after parsing, so they are held back until the background has been read.
      const release = Promise.withResolvers<void>();
      await page.route('**/app.js', async (route) => {
        await release.promise;
        await route.continue();
      });
      await page.reload({ waitUntil: 'commit' });
      await page.locator('footer').waitFor({ state: 'attached' });
      expect(await page.evaluate(() => document.documentElement.style.colorScheme)).to.equal('dark');
      // Nothing is painted before the stylesheets are loaded.
      const first = await eventually(
        () => ground(page),
        (colour) => colour !== 'rgba(0, 0, 0, 0)',
      );
      expect(first).to.equal(DARK);
      release.resolve();
      await choose(page, 'System');
    });
  });

  it('keep the theme for the page where the browser blocks storage', async () => {
    const prepare = (page: Page) =>
      page.addInitScript(() => {
        const blocked = {
          get: () => {
            throw new DOMException('blocked', 'SecurityError');
          },
        };
        Object.defineProperty(window, 'localStorage', blocked);
        Object.defineProperty(window, 'sessionStorage', blocked);
      });
    await visit(services().tasks, { colorScheme: 'light', prepare }, async (page) => {
      await choose(page, 'Dark');
      expect(await ground(page)).to.equal(DARK);
    });
  });
});
