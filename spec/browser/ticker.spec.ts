import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { changes, describeInBrowser, part, reaches, signIn, visit } from './chromium.ts';
import { price, shown } from './ticker-page.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

describeInBrowser('the ticker client', () => {
  const services = onceForSuite(() => startServices({ env: { TICK_INTERVAL_MS: '100' } }));

  it('exchanges the key for live prices, leaves nothing secret, freezes the prices while paused, announces a summary only if asked to, names the tab after the open symbol, and signs out', async () => {
    const { ticker, apiKey } = services();
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

    expect(await page.locator('.price-card h2').allTextContents()).to.deep.equal(SYMBOLS);
    expect(await part(page, 'filter').isVisible(), 'a filter for three symbols').to.equal(false);
    for (const symbol of SYMBOLS) {
      const read = () => shown(page, symbol, 'price');
      expect(await changes(read, await read())).to.match(/^\$[\d,]+\.\d\d$/);
      const number = async (name: string) => Number((await shown(page, symbol, name))?.replace(/[$,]/g, ''));
      expect(await number('high')).to.be.at.least(await number('low'));
      expect(await page.locator(`[data-symbol="${symbol}"] canvas`).count()).to.equal(1);
    }
    expect(await part(page, 'change-since').first().textContent()).to.match(/^Change since \d\d:\d\d:\d\d$/);
    const change = part(page, 'change').first();
    await page.waitForFunction(() =>
      document.querySelector('[data-part=change]:is([data-direction=up],[data-direction=down])'),
    );
    expect(await change.textContent()).to.match(/(up|down).*[+−<]\d+\.\d\d%.*[+−]\d+\.\d\d/s);
    expect(await change.locator('svg').boundingBox(), 'an arrow, beside the colour').to.include.keys('x');
    await page.locator('[data-part="round-trip"]:not(:empty)').waitFor();
    expect(await part(page, 'round-trip').textContent()).to.match(/^[\d.]+ ms$/);

    await changes(price(page), await price(page)());
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.evaluate(() => new Promise(requestAnimationFrame));
    const held = await part(page, 'board').textContent();
    const before = frames.length;
    await until(() => frames.length >= before + 5);
    await page.evaluate(() => new Promise(requestAnimationFrame));
    expect(await part(page, 'board').textContent()).to.equal(held);
    expect(await part(page, 'connection-text').textContent()).to.match(/^Paused \d\d:\d\d:\d\d$/);
    const greys = await page
      .locator('.price, .change')
      .evaluateAll((all) => all.map((each) => getComputedStyle(each).color));
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
    await changes(price(page), await price(page)());
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
  });

  it('can be used by keyboard only, and shows time and price under the crosshair, for pointer and keyboard', async () => {
    const { ticker, apiKey } = services();
    const page = await visit(ticker);
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
    await changes(latest, await latest());
    const box = await page.locator('.u-over').first().boundingBox();
    if (box === null) throw new Error('there is no chart');
    await page.mouse.move(box.x + box.width - 2, box.y + box.height / 2);
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
    await changes(latest, await latest());
    const chosen = await shown(page, 'BTC-USD', 'readout');
    await changes(price(page), await price(page)());
    expect(await shown(page, 'BTC-USD', 'readout'), 'the crosshair stays at its second').to.equal(chosen);
    expect((await shown(page, 'SOL-USD', 'readout'))?.slice(0, 8), 'in all charts').to.equal(chosen?.slice(0, 8));
    await page.keyboard.press('Escape');
    expect(await chart.getAttribute('aria-valuetext')).to.equal('no point chosen');
  });
});
