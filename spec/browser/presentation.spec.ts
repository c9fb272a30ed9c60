import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { request, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { violations } from './accessibility.ts';
import { describeInBrowser, part, reaches, signIn, visit } from './chromium.ts';
import { STALE_AFTER_MS, waitLongToReconnect } from './ticker-page.ts';

const WIDTHS = [320, 1280, 2560];
const SCHEMES = ['light', 'dark'] as const;
const MAX_WEIGHT = 150_000;
/** An idle machine needs a tenth of that at most. */
const MAX_USABLE_MS = 10_000;
const LOST = /net::ERR_|WebSocket connection to|status of 401/;

/** Asserts that a page as it is now is accessible in both colour schemes and no wider than the window. */
async function inspectLook(page: Page, state: string): Promise<void> {
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    expect(await violations(page), `${state}, ${colorScheme}`).to.deep.equal([]);
  }
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(overflow, `${state}: pixels beyond the page's width`).to.be.at.most(0);
}

describeInBrowser('both clients', () => {
  for (const width of WIDTHS) {
    it(`ticker, ${width} pixels wide: every state is accessible and fits`, async () => {
      const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '60000' } });
      const network = await severable(ticker);
      const prepare = async (page: Page) => {
        await page.clock.install();
        await waitLongToReconnect(page);
      };
      await visit(network.url, { width, tolerated: LOST, prepare }, async (page) => {
        await inspectLook(page, 'signed out');
        await page.getByLabel('API key', { exact: true }).fill('wrong');
        await page.keyboard.press('Enter');
        await page.getByText('invalid API key').waitFor();
        await inspectLook(page, 'wrong key');
        await signIn(page, apiKey);
        await inspectLook(page, 'live');
        await page.getByRole('button', { name: 'Pause' }).click();
        await inspectLook(page, 'paused');
        await page.clock.fastForward(STALE_AFTER_MS);
        await reaches(page, 'stale');
        await inspectLook(page, 'stale');
        network.cut();
        await reaches(page, 'reconnecting');
        await inspectLook(page, 'reconnecting');
        await page.getByRole('button', { name: 'Sign out' }).click();
        await inspectLook(page, 'signed out with charts');
      });
    }).timeout(120_000);

    it(`task board, ${width} pixels wide: every state is accessible and fits`, async () => {
      const { tasks } = await startServices();
      const network = await severable(tasks);
      const long = 'W'.repeat(300);
      await visit(network.url, { width, tolerated: LOST }, async (page) => {
        await page.getByText('No stored task yet').waitFor();
        await inspectLook(page, 'empty');
        await page.getByLabel('Text').fill(long);
        await page.getByRole('button', { name: 'Queue task' }).click();
        await page.locator('.task-item').waitFor();
        await page.locator('.task-item summary').click();
        await page.locator('.own-task[data-state="completed"]').waitFor();
        await inspectLook(page, 'inspected');
        await page.getByLabel('other').check();
        await page.getByRole('button', { name: 'Queue task' }).click();
        await inspectLook(page, 'refused');
        network.cut();
        await reaches(page, 'reconnecting');
        await inspectLook(page, 'unreachable');
      });
    }).timeout(120_000);
  }

  it('weigh less than 150 kB each, and can be used soon', async () => {
    const { ticker, tasks } = await startServices();
    for (const [url, usable] of [
      [ticker, '#api-key:focus'],
      [tasks, '[data-state="live"]'],
    ] as const) {
      let weight = 0;
      const prepare = async (page: Page) => {
        const devtools = await page.context().newCDPSession(page);
        await devtools.send('Network.enable');
        devtools.on('Network.loadingFinished', ({ encodedDataLength }) => {
          weight += encodedDataLength;
        });
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
        await page.waitForLoadState('networkidle').catch(() => {});
        expect(weight, `${url}: bytes`).to.be.within(10_000, MAX_WEIGHT);
      });
    }
  });

  it('preload every module and load nothing from elsewhere', async () => {
    const { ticker, tasks } = await startServices();
    for (const url of [ticker, tasks]) {
      const loaded: string[] = [];
      const prepare = async (page: Page) => {
        page.on('request', (each) => loaded.push(each.url()));
      };
      await visit(url, { prepare }, async (page) => {
        await page.locator('.pill').waitFor();
        expect(loaded.filter((each) => !each.startsWith(url))).to.deep.equal([]);
        const modules = await page.evaluate(() =>
          performance
            .getEntriesByType('resource')
            .map(({ name }) => name)
            .filter((name) => name.endsWith('.js')),
        );
        const preloaded = await page
          .locator('link[rel=modulepreload]')
          .evaluateAll((links) => links.map((link) => (link as HTMLLinkElement).href));
        expect(preloaded).to.have.members(modules);
      });
    }
  });

  it('are served with a strict policy, compressed, and not again while the copy holds', async () => {
    const { ticker, tasks } = await startServices();
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
      // Not by fetch, which adds that it wants no cached answer.
      const again = get(url, { agent: false, headers: { 'If-Modified-Since': modified } });
      const [answer] = (await once(again, 'response')) as [IncomingMessage];
      answer.resume();
      expect(answer.statusCode).to.equal(304);
    }
  });

  it('have icons that exist', async () => {
    const { ticker, tasks } = await startServices();
    for (const url of [ticker, tasks]) {
      for (const [path, type] of Object.entries({ '/icon.svg': 'image/svg+xml', '/icon-180.png': 'image/png' })) {
        const { status, headers } = await request(url + path);
        expect([status, headers.get('content-type')]).to.deep.equal([200, type]);
      }
    }
  });

  it('move nothing where reduced motion is preferred, and something elsewhere', async () => {
    const { ticker, apiKey } = await startServices();
    for (const reducedMotion of ['reduce', 'no-preference'] as const) {
      const network = await severable(ticker);
      await visit(network.url, { reducedMotion, tolerated: LOST }, async (page) => {
        await signIn(page, apiKey);
        network.cut();
        await reaches(page, 'reconnecting');
        const moving = await page.evaluate(() => document.getAnimations().length);
        expect(moving > 0, reducedMotion).to.equal(reducedMotion === 'no-preference');
      });
    }
  });

  it('show figures that are all equally wide', async () => {
    const { ticker, apiKey } = await startServices();
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      expect(
        await part(page, 'price')
          .first()
          .evaluate((price) => getComputedStyle(price).fontVariantNumeric),
      ).to.equal('tabular-nums');
    });
  });
});
