import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, overflow, part, visit } from './chromium.ts';

/** End of the newest minute in the history that the page gets, in Unix seconds. */
const END = Math.floor(Date.now() / 60_000) * 60;

/** Answers with 15 minutes: 12 completed and 3 failed a second, and 40 tasks in the queue. The newest second has none. */
async function fakeHistory(page: Page, asked: (since: string | null) => void): Promise<void> {
  await page.route('**/queue/history*', (route) => {
    const since = new URL(route.request().url()).searchParams.get('since');
    asked(since);
    const seconds = since === null ? 900 : 0;
    const column = (value: number) => Array(seconds).fill(value);
    const rates = { accepted: column(15), completed: column(12), failed: column(3), retried: column(1) };
    return route.fulfill({ json: { end: END, seconds, ...rates, depth: column(40) } });
  });
}

const rows = (page: Page) => part(page, 'history-table').locator('tr');

/** Returns whether a chart has drawn something. */
const isDrawn = (page: Page, name: string) =>
  part(page, name)
    .locator('canvas')
    .evaluate((canvas: HTMLCanvasElement) => {
      const context = canvas.getContext('2d') as CanvasRenderingContext2D;
      return context.getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0);
    });

describeInBrowser('the charts of the task board', () => {
  const services = onceForSuite(() => startServices());

  it('follow the tasks of the service, and have their latencies', async () => {
    const { tasks } = services();
    await visit(tasks, {}, async (page) => {
      await part(page, 'throughput').locator('canvas').waitFor();
      expect(await part(page, 'waiting-p50').textContent()).to.equal('–');
      await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'a' } });
      await page.waitForFunction(
        () => document.querySelector('[data-part="running-p99"]')?.textContent?.match(/^\d[\d.]* m?s$/) != null,
      );
      // One task in a period of up to five seconds.
      await part(page, 'chart-completed')
        .filter({ hasText: /^(0\.[2-9]|1\.0)$/ })
        .waitFor();
    });
  });

  it('show 15 minutes at once, also without colour and as a table, and the numbers under the pointer, then ask only for newer seconds', async () => {
    const { tasks } = services();
    const asked: (string | null)[] = [];
    const prepare = (page: Page) => fakeHistory(page, (since) => asked.push(since));
    await visit(tasks, { prepare }, async (page) => {
      await rows(page).nth(14).waitFor({ state: 'attached' });
      expect(await isDrawn(page, 'throughput')).to.equal(true);
      expect(await isDrawn(page, 'depth')).to.equal(true);
      expect(await part(page, 'chart-completed').textContent()).to.equal('12.0');
      expect(await part(page, 'chart-failed').textContent()).to.equal('3.0');
      expect(await part(page, 'chart-depth').textContent()).to.equal('40');
      const dashes = (line: string) =>
        page
          .locator(`.line-sample[data-line="${line}"]`)
          .evaluate((sample) => getComputedStyle(sample).strokeDasharray);
      expect(await dashes('completed')).to.equal('none');
      expect(await dashes('failed')).to.not.equal('none');
      expect(await rows(page).count()).to.equal(15);
      const cells = await rows(page).last().locator('th, td').allTextContents();
      expect(cells.slice(1)).to.deep.equal(['12.0', '3.0', '1.0', '40']);
      expect(cells[0]).to.match(/\d\d:\d\d:00$/);

      await part(page, 'throughput').locator('.u-over').hover();
      await page.waitForFunction(
        () => document.querySelector('[data-part="depth"] [data-part="chart-time"]')?.textContent !== 'now',
      );
      const time = part(page, 'throughput').locator('[data-part="chart-time"]');
      expect(await time.textContent()).to.match(/^at (\d+ \w+ \d{4}, )?\d\d:\d\d:\d\d$/);
      await page.mouse.move(0, 0);
      await page.waitForFunction(
        () => document.querySelector('[data-part="depth"] [data-part="chart-time"]')?.textContent === 'now',
      );
      await eventually(
        () => asked.length,
        (count) => count > 1,
      );
      expect(asked.slice(0, 2)).to.deep.equal([null, String(END)]);
    });
  });

  it('are not asked for while they are folded, as on a small screen at first', async () => {
    const { tasks } = services();
    let asked = 0;
    const prepare = (page: Page) => fakeHistory(page, () => asked++);
    await visit(tasks, { prepare, width: 320 }, async (page) => {
      await page.locator('.pill[data-state="live"]').waitFor();
      expect(asked).to.equal(0);
      await page.getByText('The last 15 minutes', { exact: true }).click();
      await rows(page).first().waitFor({ state: 'attached' });
      expect(asked).to.equal(1);
      expect(await overflow(page)).to.be.at.most(0);
    });
  });
});
