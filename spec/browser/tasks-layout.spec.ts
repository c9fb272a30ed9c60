import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { enlargeText, expectFewShifts, overflow, part, partShows, recordShifts } from './page.ts';
import { partsShow, rows } from './task-rows.ts';

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

const isDrawn = (page: Page, name: string) =>
  part(page, name)
    .locator('canvas')
    .evaluate((canvas: HTMLCanvasElement) => {
      const pixels = canvas.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height);
      return pixels?.data.some((value) => value > 0);
    });

const top = (page: Page, name: string) => part(page, name).evaluate((element) => element.getBoundingClientRect().top);

describeInBrowser('the layout of the task board', () => {
  const services = onceForSuite(async () => {
    const started = await startServices();
    const tasks: object[] = Array.from({ length: 100 }, (_, index) => ({ action: `action-${index}` }));
    tasks.push({ action: 'W'.repeat(200), data: { text: 'W'.repeat(300) } });
    await post(`${started.tasks}/tasks/batch`, { tasks });
    return started;
  });

  it('moves nothing while 100 rows load, and shows the first rows at once on a laptop, puts the list before the form on a small screen, and never scrolls sideways', async () => {
    const page = await visit(services().tasks, { width: 1280, height: 800, prepare: recordShifts });
    await rows(page).nth(99).waitFor();
    await partShows(page, 'count-completed', '101');
    await expectFewShifts(page, 0.02);
    const [find, pause] = [await top(page, 'find'), await top(page, 'pause')];
    expect(Math.abs(find - pause), 'the buttons of the list are in one line').to.be.below(20);
    const tops = await Promise.all(['health', 'tabs', 'find', 'task-rows'].map((name) => top(page, name)));
    expect(tops).to.deep.equal(tops.toSorted((one, other) => one - other));
    expect((await rows(page).nth(4).boundingBox())?.y).to.be.below(770);
    const form = await part(page, 'submit-form').boundingBox();
    const list = await part(page, 'list').boundingBox();
    expect(form?.x, 'the form is beside the list').to.be.above((list?.x ?? 0) + (list?.width ?? 0));
    expect(await part(page, 'to-form').isVisible()).to.equal(false);

    await page.emulateMedia({ forcedColors: 'active', reducedMotion: 'reduce' });
    const marks = await page.locator('.tab .mark').evaluateAll((all) =>
      all.map((mark) => {
        const { borderWidth, borderStyle, borderRadius, clipPath, rotate } = getComputedStyle(mark);
        return [borderWidth, borderStyle, borderRadius, clipPath, rotate].join(' ');
      }),
    );
    expect(new Set(marks).size, 'states in forced colours').to.equal(7);
    const tabs = page.locator('.tab');
    const borders = await tabs.evaluateAll((all) => all.map((each) => getComputedStyle(each).borderTopColor));
    expect(borders[5], 'the current tab in forced colours').to.not.equal(borders[0]);
    expect(await page.evaluate(() => document.getAnimations().length)).to.equal(0);

    await page.emulateMedia({ forcedColors: 'none', media: 'print' });
    expect(await part(page, 'task-rows').isVisible()).to.equal(true);
    for (const name of ['submit-form', 'find', 'pause']) expect(await part(page, name).isVisible()).to.equal(false);

    await page.emulateMedia({ media: 'screen' });
    await page.setViewportSize({ width: 320, height: 640 });
    expect(await top(page, 'task-rows')).to.be.below(await top(page, 'submit-form'));
    await page.getByRole('link', { name: 'Queue a task' }).click();
    expect(await page.evaluate(() => document.activeElement?.id)).to.equal('text');
    expect(await top(page, 'submit-form')).to.be.within(0, 640);
    await enlargeText(page);
    for (const width of [320, 768, 2560]) {
      await page.setViewportSize({ width, height: 800 });
      // Charts follow the width in the next frame.
      await until(async () => (await overflow(page)) <= 0);
    }
  });

  it('names the JSON listings for browsers without scripts', async () => {
    const { tasks } = services();
    const { body: text } = await request(tasks);
    const [notice = ''] = /<noscript>.*<\/noscript>/s.exec(text) ?? [];
    for (const [, path = ''] of notice.matchAll(/href="([^"]+)"/g))
      expect((await request(tasks + path)).status, path).to.equal(200);
    expect(notice).to.include('/tasks').and.include('/dead-letters');
  });
});

describeInBrowser('the charts of the task board', () => {
  it('follow the tasks of the service, show a range at once, also without colour and as a table, and the numbers under the pointer, then ask only for newer seconds', async () => {
    const { tasks } = await startServices();
    const page = await visit(tasks);
    const history = part(page, 'history-table').locator('tr');
    await part(page, 'throughput').locator('canvas').waitFor();
    // One task in a period of up to five seconds.
    const shown = ['accepted', 'completed'].map((name) => partShows(page, `chart-${name}`, /^(0\.[2-9]|1\.0)$/));
    await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'a' } });
    await Promise.all(shown);
    await page.getByText('Actions and workers').click();
    const cells = part(page, 'actions').locator('tr', { hasText: 'uppercase' }).locator('td');
    const duration = cells.last().filter({ hasText: /^\d[\d.]* m?s$/ });
    await duration.waitFor();
    expect((await cells.allTextContents()).slice(0, 6)).to.deep.equal(['0', '0', '0', '0', 'under 0.1 / s', '0 %']);
    await page.getByLabel('24 h').check();
    await page.getByText(/^Actions\. Rates, failures and durations since the start \d+ (s|min) ago\.$/).waitFor();

    // The page asks every second, and its requests are not to be counted.
    await page.goto('about:blank');
    const asked: string[] = [];
    await fakeHistory(page, (step, since) => asked.push(`${step} ${since}`));
    await page.goto(`${tasks}/?range=1h`);
    await page.getByRole('heading', { name: 'The last hour' }).waitFor();
    await until(async () => (await history.count()) === 12);
    await page.getByLabel('24 h').check();
    await page.waitForURL(/\?range=24h$/);
    await history.nth(23).waitFor({ state: 'attached' });
    await page.locator('.tab[data-state="queued"]').click();
    await page.waitForURL(/\?state=queued&range=24h$/);
    await page.getByLabel('15 min').check();
    await page.waitForURL(/\?state=queued$/);
    await until(async () => (await history.count()) === 15);
    for (const name of ['throughput', 'depth']) expect(await isDrawn(page, name)).to.equal(true);
    const rates = { 'chart-accepted': '15', 'chart-completed': '12', 'chart-failed': '3.0' };
    await partsShow(page, { ...rates, 'chart-depth': '40' });
    const samples = part(page, 'throughput').locator('.line-sample');
    const dashes = await samples.evaluateAll((all) => all.map((each) => getComputedStyle(each).strokeDasharray));
    expect(new Set(dashes).size).to.equal(3);
    const newest = await history.last().locator('th, td').allTextContents();
    expect(newest.slice(1)).to.deep.equal(['15', '12', '3.0', '1.0', '0', '40']);
    expect(newest[0]).to.match(/\d\d:\d\d:00$/);
    // The start of 28 hours ago is not in the range.
    const caption = await page.locator('caption').filter({ hasText: 'Tasks per second' }).textContent();
    expect(caption).to.match(/Starts of the service: (\d+ \w+ \d{4}, )?\d\d:\d\d:\d\d\.$/);

    const time = (chart: string, text: string | RegExp) =>
      part(page, chart).locator('[data-part="chart-time"]').filter({ hasText: text }).waitFor();
    await part(page, 'throughput').locator('.u-over').hover();
    for (const chart of ['throughput', 'depth']) await time(chart, /^at (\d+ \w+ \d{4}, )?\d\d:\d\d:\d\d$/);
    await page.mouse.move(0, 0);
    await time('depth', /^now$/);
    await until(() => asked.length > 2);
    expect(asked.slice(0, 3)).to.deep.equal(['1 null', '60 null', `1 ${END - 1}`]);
  });
});
