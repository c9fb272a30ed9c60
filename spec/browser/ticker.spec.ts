import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { startServices } from '../support/program.ts';
import { changes, describeInBrowser, part, reaches, signIn, visit } from './chromium.ts';
import { severable } from './severable.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];
const LOST = /net::ERR_|WebSocket connection to|status of 401/;

/** What a card shows in one of its parts. */
const shown = (page: Page, symbol: string, name: string) =>
  page.locator(`[data-symbol="${symbol}"]`).locator(`[data-part="${name}"]`).first().textContent();
const price = (page: Page) => () => shown(page, 'BTC-USD', 'price');

/** Has a try to reconnect wait for ten seconds, so that what is faster has another cause. */
const patiently = (page: Page) => page.addInitScript('Math.random = () => 10');

describeInBrowser('the ticker client', () => {
  it('exchanges the API key and shows live prices', async () => {
    const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '100' } });
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      expect(await page.locator('.price-card h2').allTextContents()).to.deep.equal(SYMBOLS);
      for (const symbol of SYMBOLS) {
        const read = () => shown(page, symbol, 'price');
        expect(await changes(read, await read())).to.match(/^\$[\d,]+\.\d\d$/);
        const number = async (name: string) => Number((await shown(page, symbol, name))?.replace(/[$,]/g, ''));
        expect(await number('high')).to.be.at.least(await number('low'));
        expect(await page.locator(`[data-symbol="${symbol}"] canvas`).count()).to.equal(1);
      }
      expect(await part(page, 'minute').first().textContent()).to.include('known after a minute');
      const opening = part(page, 'opening').first();
      await page.waitForFunction(() =>
        document.querySelector('[data-part=opening]:is([data-direction=up],[data-direction=down])'),
      );
      expect(await opening.textContent()).to.match(/(up|down).*[+−]0\.\d\d%.*[+−]\d+\.\d\d/s);
      expect(await opening.locator('svg').boundingBox(), 'an arrow, beside the colour').to.include.keys('x');
      await page.locator('[data-part="round-trip"]:not(:empty)').waitFor();
      expect(await part(page, 'round-trip').textContent()).to.match(/^[\d.]+ ms$/);
    });
  });

  it('leaves nothing secret in URL, storage, document or console, and forgets the key', async () => {
    const { ticker, apiKey } = await startServices();
    const logged: string[] = [];
    let token = '';
    const prepare = async (page: Page) => {
      page.on('console', (message) => logged.push(message.text()));
      page.on('response', async (response) => {
        if (response.url().endsWith('/auth/token')) token = (await response.json()).token;
      });
    };
    await visit(ticker, { prepare }, async (page) => {
      await signIn(page, apiKey);
      expect(token).to.have.length.above(100);
      expect(await page.locator('#api-key').inputValue()).to.equal('');
      const traces = await page.evaluate(() =>
        JSON.stringify([
          location.href,
          { ...localStorage },
          { ...sessionStorage },
          document.cookie,
          document.body.outerHTML,
        ]),
      );
      for (const secret of [apiKey, token]) expect(traces + logged.join()).to.not.include(secret);
    });
  });

  it('shows why a key is refused where it was entered, in the words of the service', async () => {
    const { ticker, apiKey } = await startServices();
    await visit(ticker, { tolerated: /status of 401/ }, async (page) => {
      const field = page.getByLabel('API key', { exact: true });
      await page.getByRole('button', { name: 'Watch the prices' }).click();
      expect(await page.getByRole('alert').textContent()).to.equal('Enter the API key.');
      await field.fill('wrong');
      await page.keyboard.press('Enter');
      await page.getByText('invalid API key').waitFor();
      expect(await field.getAttribute('aria-invalid')).to.equal('true');
      expect(await field.getAttribute('aria-describedby')).to.include(await page.getByRole('alert').getAttribute('id'));
      await signIn(page, apiKey);
    });
  });

  it('is friendly to password managers', async () => {
    const { ticker } = await startServices();
    await visit(ticker, {}, async (page) => {
      const field = page.getByLabel('API key', { exact: true });
      expect(await field.getAttribute('autocomplete')).to.equal('current-password');
      expect(await page.locator('form [autocomplete=username]').count()).to.equal(1);
      expect(await page.locator('form').getAttribute('method')).to.equal('post');
      await page.getByRole('button', { name: 'Show the key' }).click();
      expect(await field.getAttribute('type')).to.equal('text');
    });
  });

  it('pauses: what is shown stays, the stream goes on behind it', async () => {
    const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '100' } });
    await visit(ticker, {}, async (page) => {
      const frames: string[] = [];
      page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => frames.push(String(payload))));
      await signIn(page, apiKey);
      await changes(price(page), await price(page)());
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.evaluate(() => new Promise(requestAnimationFrame));
      const held = await part(page, 'board').textContent();
      const before = frames.length;
      while (frames.length < before + 10) await page.evaluate(() => new Promise(requestAnimationFrame));
      expect(await part(page, 'board').textContent()).to.equal(held);
      expect(await part(page, 'pause-note').textContent()).to.match(/^Paused at \d\d:\d\d:\d\d$/);
      const stopped = await price(page)();
      await page.getByRole('button', { name: 'Resume' }).click();
      await changes(price(page), stopped);
    });
  });

  it('shows time and price under the crosshair, for pointer and keyboard', async () => {
    const { ticker, apiKey } = await startServices();
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      const chart = page.getByRole('slider', { name: 'Crosshair in the chart of BTC-USD' });
      await page.waitForFunction(() => {
        const slider = document.querySelector('[role=slider]');
        return Number(slider?.getAttribute('aria-valuemax')) > 0;
      });
      expect(await shown(page, 'BTC-USD', 'readout')).to.equal('Last minute');
      const first = await price(page)();
      await changes(price(page), first);
      const box = await page.locator('.u-over').first().boundingBox();
      if (box === null) throw new Error('there is no chart');
      await page.mouse.move(box.x + box.width - 2, box.y + box.height / 2);
      await page.locator('[data-symbol="ETH-USD"] .readout[data-point]').waitFor();
      expect(await shown(page, 'BTC-USD', 'readout')).to.match(/^\d\d:\d\d:\d\d {2}\$[\d,]+\.\d\d$/);
      await page.mouse.move(5, 5);
      await page.getByText('Last minute', { exact: true }).first().waitFor();

      await chart.focus();
      await page.keyboard.press('Home');
      const oldest = await chart.getAttribute('aria-valuetext');
      expect(oldest).to.include(first);
      await page.keyboard.press('ArrowRight');
      expect(await chart.getAttribute('aria-valuetext')).to.not.equal(oldest);
      const chosen = await shown(page, 'BTC-USD', 'readout');
      await changes(price(page), await price(page)());
      expect(await shown(page, 'BTC-USD', 'readout'), 'the crosshair stays at its second').to.equal(chosen);
      await page.keyboard.press('Escape');
      expect(await chart.getAttribute('aria-valuetext')).to.equal('no point chosen');

      await page.getByLabel('15 min').check();
      await page.locator('.readout', { hasText: 'Last 15 minutes' }).first().waitFor();
    });
  });

  it('announces nothing unless it is asked to, and then a summary', async () => {
    const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '100' } });
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      const region = part(page, 'announcement');
      expect(await page.locator('.board [aria-live], .board [role=status], .board [role=alert]').count()).to.equal(0);
      expect(await region.getAttribute('aria-live')).to.equal('polite');
      await changes(price(page), await price(page)());
      expect(await region.textContent()).to.equal('');
      await page.getByLabel('Announce prices').check();
      const summary = await region.textContent();
      expect(summary).to.match(/^BTC-USD \$[\d,.]+, .* since the page opened\. ETH-USD .* SOL-USD .*\.$/);
      await changes(price(page), await price(page)());
      expect(await region.textContent(), 'not each tick').to.equal(summary);
    });
  });

  it('says that prices are stale after three seconds without one, and live again with the next', async () => {
    const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '6000' } });
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      await reaches(page, 'stale');
      expect(await part(page, 'connection-text').textContent()).to.match(/^Stale, no price for [3-6] s$/);
      await reaches(page, 'live');
    });
  });

  it('reconnects by itself when the connection is lost, and keeps the charts', async () => {
    const { ticker, apiKey } = await startServices();
    const network = await severable(ticker);
    await visit(network.url, { tolerated: LOST }, async (page) => {
      await signIn(page, apiKey);
      const low = await shown(page, 'BTC-USD', 'low');
      network.cut();
      await reaches(page, 'reconnecting');
      expect(await part(page, 'connection-text').textContent()).to.match(/^Reconnecting in \d+ s$/);
      expect(await shown(page, 'BTC-USD', 'low')).to.equal(low);
      network.mend();
      await reaches(page, 'live');
    });
  });

  const causes: Record<string, (page: Page) => Promise<unknown>> = {
    'the network returns': (page) => page.evaluate(() => dispatchEvent(new Event('online'))),
    'the tab becomes visible': (page) => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))),
    'the user wants it': (page) => page.getByRole('button', { name: 'Retry' }).click(),
  };
  for (const [cause, bringAbout] of Object.entries(causes)) {
    it(`reconnects at once when ${cause}`, async () => {
      const { ticker, apiKey } = await startServices();
      const network = await severable(ticker);
      await visit(network.url, { tolerated: LOST, prepare: patiently }, async (page) => {
        await signIn(page, apiKey);
        network.cut();
        await reaches(page, 'reconnecting');
        network.mend();
        const since = Date.now();
        await bringAbout(page);
        await reaches(page, 'live');
        expect(Date.now() - since).to.be.below(8_000);
      });
    });
  }

  it('asks for the key again when the token has expired, and keeps the charts', async () => {
    const { ticker, apiKey } = await startServices({ env: { TOKEN_LIFETIME_SECONDS: '1' } });
    const network = await severable(ticker);
    await visit(network.url, { tolerated: LOST }, async (page) => {
      await signIn(page, apiKey);
      // The open socket outlives the token.
      for (let tick = 0; tick < 2; tick++) await changes(price(page), await price(page)());
      network.cut();
      network.mend();
      await reaches(page, 'signed-out');
      await page.getByText('Your session has ended').waitFor();
      expect(await page.locator('.price-card').count()).to.equal(3);
      await signIn(page, apiKey);
    });
  });

  it('survives that the server is killed and started again', async () => {
    const DATA_DIR = await temporaryFolder();
    const first = await startServices({ env: { DATA_DIR } });
    const TICKER_PORT = new URL(first.ticker).port;
    await visit(first.ticker, { tolerated: LOST }, async (page) => {
      await signIn(page, first.apiKey);
      const seconds = async () => Number(await page.locator('[role=slider]').first().getAttribute('aria-valuemax'));
      const before = await seconds();
      first.child.kill('SIGKILL');
      await reaches(page, 'reconnecting');
      await startServices({ env: { DATA_DIR, TICKER_PORT } });
      // Its tokens died with it: the key is asked for again.
      await page.getByText('Your session has ended').waitFor();
      await signIn(page, first.apiKey);
      await page.waitForFunction(
        (was) => Number(document.querySelector('[role=slider]')?.getAttribute('aria-valuemax')) > was,
        before,
      );
      await page.getByRole('slider').first().focus();
      await page.keyboard.press('Home');
      expect(Number(await page.getByRole('slider').first().getAttribute('aria-valuenow'))).to.be.at.most(before);
    });
  });

  it('does not notice the death of the ticker thread', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    await inspector.alive(/ticker/, 1);
    await visit(services.ticker, {}, async (page) => {
      await signIn(page, services.apiKey);
      const states: string[] = [];
      await page.exposeFunction('noteState', (state: string) => states.push(state));
      await page.evaluate(() => {
        const pill = document.querySelector<HTMLElement>('.pill');
        // @ts-expect-error: exposed above
        new MutationObserver(() => noteState(pill.dataset.state)).observe(pill, { attributeFilter: ['data-state'] });
      });
      await inspector.kill(/ticker/).dead;
      for (let tick = 0; tick < 3; tick++) await changes(price(page), await price(page)());
      expect(states.filter((state) => state !== 'live')).to.deep.equal([]);
    });
  });

  it('signs out on wish', async () => {
    const { ticker, apiKey } = await startServices();
    await visit(ticker, {}, async (page) => {
      await signIn(page, apiKey);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await reaches(page, 'signed-out');
      await page.getByLabel('API key', { exact: true }).waitFor();
      expect(await part(page, 'sign-in-reason').isHidden()).to.equal(true);
    });
  });

  it('can be used by keyboard only', async () => {
    const { ticker, apiKey } = await startServices();
    await visit(ticker, {}, async (page) => {
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
      for (let stop = 0; stop < 7; stop++) {
        await page.keyboard.press('Tab');
        stops.push(await focus());
      }
      expect(stops.map((text) => text.replace(/\s+/g, ' ').trim())).to.deep.equal([
        '1 min',
        'Pause',
        'Announce prices',
        'Sign out demo',
        ...SYMBOLS.map((symbol) => `Crosshair in the chart of ${symbol}`),
      ]);
      for (let stop = 0; stop < 6; stop++) await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('ArrowRight');
      expect(await page.getByLabel('5 min', { exact: true }).isChecked()).to.equal(true);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Space');
      await page.getByText('Paused at').waitFor();
    });
  });
});
