import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { projectFolder, request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, signIn, visit } from './chromium.ts';
import { queueButton, startWithHandlers } from './task-rows.ts';

const folder = join(projectFolder, 'www/guide/screenshots');
const TICKS = 120;
/** Time for which tasks are queued before the pictures of the task board. */
const LOAD_MS = 120_000;

const HANDLERS = `
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export default {
  'resize-image': async ({ width }, { progress }) => {
    for (let step = 0; step < 10; step++) {
      progress(step / 10, 'row ' + step * 100 + ' of 1000');
      await sleep(300);
    }
    return width + '×' + width * 0.75;
  },
  'send-invoice': async ({ invoice }, { attempt }) => {
    await sleep(20);
    if (invoice % 3 === 0 && attempt < 4) throw new RetryAfter(60_000, '451 4.3.0 mail server temporarily rejected message');
    return 'sent to customer ' + invoice;
  },
  'charge-card': async ({ amount }) => {
    if (amount % 40 === 0) throw new PermanentError('card declined: insufficient funds');
    return { charged: amount, currency: 'EUR' };
  },
};`;

const SUBMISSIONS = [
  (i: number) => ({ action: 'uppercase', data: { text: `hello, queue ${i}` } }),
  (i: number) => ({ action: 'charge-card', data: { amount: (i % 97) + 1 } }),
  (i: number) => ({ action: 'sum', data: { numbers: [1, 2, 3.5, i] } }),
  (i: number) => ({ action: 'send-invoice', data: { invoice: i } }),
  (i: number) => ({ action: 'report', data: { month: `2026-${String((i % 12) + 1).padStart(2, '0')}` } }),
];

/** Queues tasks at a rate that goes up and down. */
async function queueTasks(tasks: string): Promise<void> {
  const start = performance.now();
  for (let i = 0, elapsed = 0; elapsed < LOAD_MS; i++, elapsed = performance.now() - start) {
    const submission = i % 150 === 0 ? { action: 'resize-image', data: { width: 640 } } : SUBMISSIONS[i % 5]?.(i);
    await request(`${tasks}/tasks`, { method: 'POST', body: JSON.stringify(submission) });
    await setTimeout(40 + 30 * Math.sin(elapsed / 9_000));
  }
}

/** `npm run screenshots` takes the README's pictures of both pages. */
describeInBrowser('screenshots', () => {
  mkdirSync(folder, { recursive: true });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`of the ticker, ${colorScheme}`, async () => {
      const { ticker, apiKey } = await startServices({ env: { TICKER_SEED: 'readme' } });
      const page = await visit(ticker, { width: 1440, height: 560, colorScheme });
      let frames = 0;
      page.on('websocket', (socket) => socket.on('framereceived', () => frames++));
      await signIn(page, apiKey);
      await until(() => frames >= TICKS);
      await page.screenshot({ path: join(folder, `ticker-${colorScheme}.png`) });
    });
  }

  it('of the task board', async () => {
    const { tasks } = await startWithHandlers(HANDLERS, { TASK_UNKNOWN_ACTIONS: 'process' });
    await queueTasks(tasks);
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await visit(tasks, { width: 1440, height: 900, colorScheme });
      await queueButton(page).click();
      await page.locator('.own-task[data-state="completed"]').waitFor();
      await page.screenshot({ path: join(folder, `tasks-${colorScheme}.png`) });
    }
  }).timeout(2 * LOAD_MS);
});
