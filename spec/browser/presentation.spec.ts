import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, LOST, visit } from './chromium.ts';
import { itShowsFailedTasksAt } from './every-state.ts';
import { part, reaches, signIn } from './page.ts';

/** Largest compressed sizes in bytes of a page with all its files. */
const MAX_WEIGHTS = { ticker: 48_000, tasks: 114_000 };

/** Expects that a page is light, has preloaded every module, and has loaded nothing from elsewhere. */
async function expectLight(page: Page, most: number): Promise<void> {
  const origin = new URL(page.url()).origin;
  const { names, weight, classic, preloaded } = await page.evaluate(() => {
    const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    const sources = [...document.querySelectorAll<HTMLScriptElement>('script:not([type=module])')];
    return {
      names: entries.map(({ name }) => name),
      weight: (entries as PerformanceResourceTiming[])
        .filter(({ name }) => name === location.href || /\.(js|css|svg|png)$/.test(name))
        .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
      classic: sources.map(({ src }) => src),
      preloaded: [...document.querySelectorAll<HTMLLinkElement>('link[rel=modulepreload]')].map(({ href }) => href),
    };
  });
  expect(names.filter((name) => !name.startsWith(origin))).to.deep.equal([]);
  expect(classic).to.deep.equal([`${origin}/shared/theme.js`]);
  expect(preloaded).to.have.members(names.filter((name) => name.endsWith('.js') && !classic.includes(name)));
  expect(weight, 'bytes').to.be.within(20_000, most);
}

const DARK = 'rgb(13, 17, 23)';
const LIGHT = 'rgb(244, 246, 248)';

const ground = (page: Page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const choose = (page: Page, theme: string) => page.getByLabel('Theme').selectOption(theme);

describeInBrowser('both clients', () => {
  itShowsFailedTasksAt(320, 'light');

  const services = onceForSuite(startServices);

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

  it('weigh less than 162 kB together and preload every module; the price page follows the theme at once, and moves nothing where reduced motion is preferred', async () => {
    const { ticker, apiKey } = services();
    const network = await severable(ticker);
    const tolerated = new RegExp(`${LOST.source}|willReadFrequently`);
    const page = await visit(network.url, { colorScheme: 'light', tolerated });
    await page.locator('#api-key:focus').waitFor();
    await expectLight(page, MAX_WEIGHTS.ticker);
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

  it('have the theme of the system until another is chosen, which holds in other tabs, after a reload from the first paint on, and for the page where storage is blocked, but not on paper', async () => {
    const url = services().tasks;
    const page = await visit(url, { colorScheme: 'light' });
    await reaches(page, 'live');
    await expectLight(page, MAX_WEIGHTS.tasks);
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
    const bars = page.locator('meta[name="theme-color"][media="all"]');
    expect(await bars.evaluateAll((all) => all.map((bar) => bar.getAttribute('content')))).to.deep.equal(['#0d1117']);

    // Modules run only after parsing, so they are held back until the background has been read.
    const release = Promise.withResolvers<void>();
    await page.route('**/app.js', (route) => release.promise.then(() => route.continue()));
    await page.reload({ waitUntil: 'commit' });
    await page.locator('footer').waitFor({ state: 'attached' });
    expect(await page.evaluate(() => document.documentElement.style.colorScheme)).to.equal('dark');
    // Nothing is painted before the stylesheets are loaded.
    await until(async () => (await ground(page)) !== 'rgba(0, 0, 0, 0)');
    expect(await ground(page)).to.equal(DARK);
    release.resolve();
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    expect(await ground(page), 'on paper').to.equal(LIGHT);
    await page.emulateMedia({ media: 'screen', colorScheme: 'light' });
    await choose(page, 'System');
    expect(await ground(page)).to.equal(LIGHT);
    expect(await page.evaluate(() => ({ ...localStorage }))).to.deep.equal({});

    await page.addInitScript(() => {
      const get = () => {
        throw new DOMException('blocked', 'SecurityError');
      };
      for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get });
    });
    await page.reload();
    await choose(page, 'Dark');
    expect(await ground(page)).to.equal(DARK);
  });
});
