import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, signIn, visit } from './chromium.ts';

const DARK = 'rgb(13, 17, 23)';
const LIGHT = 'rgb(244, 246, 248)';

const ground = (page: Page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const choose = (page: Page, theme: string) => page.getByLabel('Theme').selectOption(theme);

describeInBrowser('the theme of both clients', () => {
  const services = onceForSuite(startServices);

  it('is that of the system until another is chosen, which holds after a reload and in other tabs, but not on paper', async () => {
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

  for (const client of ['ticker', 'tasks'] as const) {
    it(`is applied before the first paint, without inline code: ${client}`, async () => {
      await visit(services()[client], { colorScheme: 'light' }, async (page) => {
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
  }

  it('holds for the page where the browser blocks storage', async () => {
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

  it('changes the colours of the charts at once', async () => {
    const { ticker, apiKey } = services();
    await visit(ticker, { colorScheme: 'light', tolerated: /willReadFrequently/ }, async (page) => {
      await signIn(page, apiKey);
      await page.getByRole('button', { name: 'Pause' }).click();
      const colours = () =>
        page
          .locator('canvas')
          .first()
          .evaluate((canvas) => {
            const { width, height } = canvas as HTMLCanvasElement;
            const pixels = (canvas as HTMLCanvasElement).getContext('2d')?.getImageData(0, 0, width, height).data ?? [];
            const found = new Set<string>();
            for (let at = 0; at < pixels.length; at += 4)
              if (pixels[at + 3] === 255) found.add(`${pixels[at]},${pixels[at + 1]},${pixels[at + 2]}`);
            return [...found];
          });
      expect(await colours()).to.include('36,88,211');
      await choose(page, 'Dark');
      await eventually(colours, (found) => found.includes('126,168,255') && !found.includes('36,88,211'));
      await choose(page, 'System');
    });
  });
});
