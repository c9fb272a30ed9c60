import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, part, partShows, visit } from './chromium.ts';

/** End of an hour, in Unix seconds. */
const END = Math.floor(Date.now() / 3_600_000) * 3_600;

/** Answers with a full history: 15 accepted, 12 completed and 3 failed a second, 40 tasks in the queue, and a restart. */
async function fakeHistory(page: Page, asked: (step: string | null, since: string | null) => void): Promise<void> {
  await page.route('**/queue/history*', (route) => {
    const query = new URL(route.request().url()).searchParams;
    const [step, since] = [query.get('step'), query.get('since')];
    asked(step, since);
    const length = since !== null ? 0 : step === '60' ? 1_440 : 900;
    const column = (perSecond: number) => Array(length).fill(perSecond * Number(step));
    const rates = { accepted: column(15), completed: column(12), failed: column(3), retried: column(1) };
    const depth = Array(length).fill(40);
    const ended = { end: END - Number(step), starts: [END - 100_000, END - 600] };
    return route.fulfill({ json: { ...ended, ...rates, refused: column(0), depth } });
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

  it('follow the tasks of the service, show a range at once, also without colour and as a table, and the numbers under the pointer, then ask only for newer seconds', async () => {
    const { tasks } = services();
    const page = await visit(tasks);
    await part(page, 'throughput').locator('canvas').waitFor();
    await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'a' } });
    // One task in a period of up to five seconds.
    for (const name of ['accepted', 'completed']) {
      await partShows(page, `chart-${name}`, /^(0\.[2-9]|1\.0)$/);
    }
    await page.getByText('Actions and workers').click();
    const cells = part(page, 'actions').locator('tr', { hasText: 'uppercase' }).locator('td');
    await cells
      .last()
      .filter({ hasText: /^\d[\d.]* m?s$/ })
      .waitFor();
    expect((await cells.allTextContents()).slice(0, 6)).to.deep.equal(['0', '0', '0', '0', 'under 0.1 / s', '0 %']);
    await page.getByLabel('24 h').check();
    await page.getByText(/^Actions\. Rates, failures and durations since the start \d+ (s|min) ago\.$/).waitFor();

    const asked: string[] = [];
    await fakeHistory(page, (step, since) => asked.push(`${step} ${since}`));
    await page.goto(`${tasks}/?range=1h`);
    await page.getByRole('heading', { name: 'The last hour' }).waitFor();
    await rows(page).nth(11).waitFor({ state: 'attached' });
    expect(await rows(page).count()).to.equal(12);
    await page.getByLabel('24 h').check();
    await page.waitForURL(/\?range=24h$/);
    await rows(page).nth(23).waitFor({ state: 'attached' });
    await page.locator('.tab[data-state="queued"]').click();
    await page.waitForURL(/\?state=queued&range=24h$/);
    await page.getByLabel('15 min').check();
    await page.waitForURL(/\?state=queued$/);
    await rows(page).nth(14).waitFor({ state: 'attached' });
    expect(await isDrawn(page, 'throughput')).to.equal(true);
    expect(await isDrawn(page, 'depth')).to.equal(true);
    const shown = { accepted: '15', completed: '12', failed: '3.0', depth: '40' };
    for (const [name, text] of Object.entries(shown)) {
      expect(await part(page, `chart-${name}`).textContent()).to.equal(text);
    }
    const dashes = ['accepted', 'completed', 'failed'].map((line) =>
      page.locator(`.line-sample[data-line="${line}"]`).evaluate((sample) => getComputedStyle(sample).strokeDasharray),
    );
    expect(new Set(await Promise.all(dashes)).size).to.equal(3);
    expect(await rows(page).count()).to.equal(15);
    const newest = await rows(page).last().locator('th, td').allTextContents();
    expect(newest.slice(1)).to.deep.equal(['15', '12', '3.0', '1.0', '0', '40']);
    expect(newest[0]).to.match(/\d\d:\d\d:00$/);
    // The start of 28 hours ago is not in the range.
    const caption = await page.locator('caption').filter({ hasText: 'Tasks per second' }).textContent();
    expect(caption).to.match(/Starts of the service: (\d+ \w+ \d{4}, )?\d\d:\d\d:\d\d\.$/);

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
      (count) => count > 2,
    );
    expect(asked.slice(0, 3)).to.deep.equal(['1 null', '60 null', `1 ${END - 1}`]);
  });
});
