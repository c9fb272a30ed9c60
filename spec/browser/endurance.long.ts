import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { startServices } from '../support/program.ts';
import { describeInBrowser, signIn, visit } from './chromium.ts';
import { imitateStream } from './imitated-stream.ts';

const START = 1_800_000_000;
const QUARTER = 15 * 60;

/** Counts the page's DOM nodes, listeners and heap bytes after a garbage collection. */
async function pageResources(page: Page): Promise<{ nodes: number; listeners: number; heap: number }> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable');
  await devtools.send('HeapProfiler.collectGarbage');
  const { metrics } = await devtools.send('Performance.getMetrics');
  await devtools.detach();
  const metric = (name: string) => metrics.find((each) => each.name === name)?.value ?? Number.NaN;
  return { nodes: metric('Nodes'), listeners: metric('JSEventListeners'), heap: metric('JSHeapUsedSize') };
}

describeInBrowser('the ticker client over an hour', () => {
  it('holds no more after an hour of ticks than after the first half of it', async () => {
    const { ticker, apiKey } = await startServices();
    const stream = imitateStream(() => START);
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
    const half = await ticksUntil(1, 2 * QUARTER);
    const hour = await ticksUntil(2 * QUARTER + 1, 4 * QUARTER);
    expect(hour.nodes).to.be.at.most(half.nodes + 5);
    expect(hour.listeners).to.be.at.most(half.listeners);
    expect(hour.heap).to.be.at.most(half.heap * 1.1);
  });
});
