import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { post, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { itShowsFailedTasksAt, itShowsTheTaskBoardAt, itShowsTheTickerAt } from './every-state.ts';
import { countRequests, part, partShows, reaches, signIn } from './page.ts';
import { imitateStream, START } from './ticker-page.ts';

const HALF_HOUR = 30 * 60;
const TASKS = 1_500;

async function pageResources(page: Page): Promise<{ nodes: number; listeners: number; heap: number }> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable');
  await devtools.send('HeapProfiler.collectGarbage');
  const { metrics } = await devtools.send('Performance.getMetrics');
  await devtools.detach();
  const metric = (name: string) => metrics.find((each) => each.name === name)?.value ?? Number.NaN;
  return { nodes: metric('Nodes'), listeners: metric('JSEventListeners'), heap: metric('JSHeapUsedSize') };
}

const countRenderings = (page: Page) =>
  page.evaluateHandle(() => {
    const observed = { startedAt: performance.now(), endedAt: 0, renderings: 0 };
    const note = () => Object.assign(observed, { endedAt: performance.now(), renderings: observed.renderings + 1 });
    const list = document.querySelector('[data-part="list"]') as HTMLElement;
    new MutationObserver(note).observe(list, { childList: true, subtree: true, characterData: true });
    return observed;
  });

async function queueMany(tasks: string): Promise<void> {
  const startedAt = performance.now();
  const submission = { action: 'sum', data: { numbers: [1, 2] } };
  for (let sent = 0; sent < TASKS; ) {
    const due = Math.min(TASKS, Math.ceil(((performance.now() - startedAt) / 1000) * 500));
    if (due > sent) await post(`${tasks}/tasks/batch`, { tasks: Array(due - sent).fill(submission) });
    sent = due;
  }
}

describeInBrowser('the ticker client over an hour', () => {
  it('holds no more after an hour of ticks than after the first half of it', async () => {
    const { ticker, apiKey } = await startServices();
    const stream = imitateStream();
    const page = await visit(ticker, { prepare: (page) => stream.prepare(page, []) });
    await signIn(page, apiKey);
    const ticksUntil = async (from: number, to: number) => {
      for (let second = from; second <= to; second++) {
        stream.send(START + second, 100 + (second % 97) / 100);
        if (second % 20 === 0) await page.evaluate(() => new Promise(requestAnimationFrame));
      }
      // Later if the page has had no tick for a second.
      await page.waitForFunction(
        (end) => Number(document.querySelector('[role=slider]')?.getAttribute('aria-valuemax')) >= end,
        START + to,
      );
      return pageResources(page);
    };
    const half = await ticksUntil(1, HALF_HOUR);
    const hour = await ticksUntil(HALF_HOUR + 1, 2 * HALF_HOUR);
    expect(hour.nodes).to.be.at.most(half.nodes + 5);
    expect(hour.listeners).to.be.at.most(half.listeners);
    expect(hour.heap).to.be.at.most(half.heap * 1.1);
  });
});

describeInBrowser('the task board under load', () => {
  it('renders at most ten times a second, takes input, requests few listings, and shows only the start of a curl command of a megabyte', async () => {
    const { tasks } = await startServices();
    const page = await visit(tasks);
    await reaches(page, 'live');
    const listings = countRequests(page, /\/tasks\/search/);
    const handle = await countRenderings(page);
    let isOver = false;
    const load = queueMany(tasks).finally(() => {
      isOver = true;
    });
    await page.locator('#text').focus();
    while (!isOver) await page.keyboard.type('x', { delay: 50 });
    await load;
    await partShows(page, 'health-backlog', /^0$/);
    await until(() => page.evaluate(async (all) => (await (await fetch('/queue')).json()).completed === all, TASKS));
    const { startedAt, endedAt, renderings } = await handle.jsonValue();
    const seconds = (endedAt - startedAt) / 1000;
    // The counts of the queue arrive once a second besides.
    expect(renderings, `renderings in ${seconds} s`).to.be.within(5, seconds * 11 + 2);
    expect(listings(), `listings in ${seconds} s`).to.be.at.most(seconds + 3);
    const field = page.getByLabel('Text');
    expect(await field.inputValue()).to.match(/x{10}/);

    await field.fill('x'.repeat(1_000_000));
    await page.getByRole('button', { name: 'Show all 1 MB' }).waitFor();
    await field.press('End');
    for (const key of 'typed') {
      await page.keyboard.press(key);
      expect((await part(page, 'curl').first().textContent())?.length).to.be.within(100, 21_000);
    }
    await page.locator('.request').getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    expect(command.length).to.be.above(1_000_000);
    expect(command).to.include('xtyped');
  });
});

describeInBrowser('both clients', () => {
  // With presentation.spec.ts, each page is seen at each width, and in both color schemes.
  itShowsTheTickerAt(320, 'light');
  itShowsTheTickerAt(1280, 'dark');
  itShowsTheTickerAt(2560, 'light');
  itShowsTheTaskBoardAt(320, 'light');
  itShowsTheTaskBoardAt(1280, 'dark');
  itShowsTheTaskBoardAt(2560, 'light');
  itShowsFailedTasksAt(768, 'light');
  itShowsFailedTasksAt(1280, 'dark');
  itShowsFailedTasksAt(2560, 'dark');
});
