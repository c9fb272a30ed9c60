import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { post, projectFolder, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { signIn } from './page.ts';
import { ownTask, queueButton, startWithHandlers } from './task-rows.ts';

const folder = join(projectFolder, 'www/guide/screenshots');
const TICKS = 120;
/** Number of tasks that are queued in two minutes before the pictures of the task board. */
const TASKS = 3_000;

const HANDLERS = `
import { setTimeout } from 'node:timers/promises';
export default {
  'resize-image': async ({ width }, { progress }) => {
    progress(0.4, 'row 400 of 1000');
    await setTimeout(3_000);
    return width + '×' + width * 0.75;
  },
  'send-invoice'({ invoice }, { attempt }) {
    if (invoice % 3 === 0 && attempt < 4) throw new RetryAfter(60_000, '451 4.3.0 mail server temporarily rejected message');
    return 'sent to customer ' + invoice;
  },
  'charge-card'({ amount }) {
    if (amount % 40 === 0) throw new PermanentError('card declined: insufficient funds');
    return { charged: amount, currency: 'EUR' };
  },
};`;

const SUBMISSIONS = [
  (i: number) => ({ action: 'uppercase', data: { text: `hello, queue ${i}` } }),
  (i: number) => ({ action: 'charge-card', data: { amount: (i % 97) + 1 } }),
  (i: number) => ({ action: 'sum', data: { numbers: [1, 2, 3.5, i] } }),
  (i: number) => ({ action: 'send-invoice', data: { invoice: i } }),
  (i: number) => (i % 150 === 4 ? { action: 'resize-image', data: { width: 640 } } : { action: 'report' }),
];

/** `npm run screenshots` takes the README's pictures of both pages. */
describeInBrowser('screenshots', () => {
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
    for (let i = 0; i < TASKS; i++) {
      await post(`${tasks}/tasks`, SUBMISSIONS[i % 5]?.(i) ?? {});
      await setTimeout(40 + 30 * Math.sin(i / 225));
    }
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await visit(tasks, { width: 1440, height: 900, colorScheme });
      await queueButton(page).click();
      await ownTask(page, 'completed').waitFor();
      await page.screenshot({ path: join(folder, `tasks-${colorScheme}.png`) });
    }
  });
});
