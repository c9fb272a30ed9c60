import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { projectFolder, request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, part, signIn, visit } from './chromium.ts';

const folder = join(projectFolder, 'www/guide/screenshots');
const TICKS = 120;
const SUBMISSIONS = [
  { action: 'uppercase', data: { text: 'hello, queue' } },
  { action: 'sum', data: { numbers: [1, 2, 3.5] } },
  { action: 'report', data: { month: '2026-10' } },
  { action: 'uppercase', data: { text: 'a result for every task' } },
  { action: 'sum', data: { numbers: [12, 30] } },
];

/** `npm run screenshots` takes the README's pictures of both pages. */
describeInBrowser('screenshots', () => {
  mkdirSync(folder, { recursive: true });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`of the ticker, ${colorScheme}`, async () => {
      const { ticker, apiKey } = await startServices({ env: { TICKER_SEED: 'readme' } });
      await visit(ticker, { width: 1440, height: 560, colorScheme }, async (page) => {
        let frames = 0;
        page.on('websocket', (socket) => socket.on('framereceived', () => frames++));
        await signIn(page, apiKey);
        await until(() => frames >= TICKS);
        await page.screenshot({ path: join(folder, `ticker-${colorScheme}.png`) });
      });
    });

    it(`of the task board, ${colorScheme}`, async () => {
      const { tasks } = await startServices();
      await visit(tasks, { width: 1100, height: 720, colorScheme }, async (page) => {
        for (const submission of SUBMISSIONS)
          await request(`${tasks}/tasks`, { method: 'POST', body: JSON.stringify(submission) });
        await part(page, 'submit').click();
        await page.locator('.own-task[data-state="completed"]').waitFor();
        await page.screenshot({ path: join(folder, `tasks-${colorScheme}.png`) });
      });
    });
  }
});
