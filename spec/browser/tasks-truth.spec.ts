import { expect } from 'chai';
import type { Page } from 'playwright-core';
import type { QueueStatus } from '../../www/client/queue-api.ts';
import { post, request } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, part, partShows, visit } from './chromium.ts';
import { startWithHandlers, tab } from './task-rows.ts';

const MAX_LENGTH = 60;
/** Size of a task's data. Dead letters of 32 MiB are kept, which 40 such tasks exceed. */
const LARGE = 900_000;

const HANDLERS = `export default {
  breaks({ number }) { throw new PermanentError('card declined #' + number); },
  tires() { throw new RetryAfter(3_600_000, 'later'); },
  slow: (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
};`;

/** Figures, numbers of the tabs and problems that the page must show for an answer of `GET /queue`. */
function expected(status: QueueStatus): string {
  const { waiting, limited, scheduled, in_flight, running, delayed: retrying, dead: failed, evicted, refused } = status;
  const backlog = waiting + limited + scheduled + in_flight + retrying;
  return JSON.stringify({
    ...{ backlog, running, next: in_flight - running, retrying, failed },
    tabs: { queued: waiting, running, retrying, failed },
    problems: { full: backlog >= MAX_LENGTH, refused: refused.per_second > 0, evicted: evicted > 0 },
  });
}

/** Returns the same as the page shows it. */
function shown(page: Page): Promise<string> {
  return page.evaluate(() => {
    const textOf = (name: string) => document.querySelector(`[data-part="${name}"]`)?.textContent ?? '';
    const number = (name: string) => Number.parseInt(textOf(name).replaceAll(',', ''), 10);
    const kinds = document.querySelector<HTMLElement>('.situation')?.dataset.kinds?.split(' ') ?? [];
    const [running, retrying, failed] = ['running', 'retrying', 'dead'].map((name) => number(`health-${name}`));
    return JSON.stringify({
      ...{ backlog: number('health-backlog'), running, next: number('more-running'), retrying, failed },
      tabs: Object.fromEntries(
        ['queued', 'running', 'retrying', 'failed'].map((state) => [state, number(`count-${state}`)]),
      ),
      problems: Object.fromEntries(['full', 'refused', 'evicted'].map((kind) => [kind, kinds.includes(kind)])),
    });
  });
}

/** Queues short, failing and retrying tasks until the returned function is called. */
function load(tasks: string): () => Promise<void> {
  let isStopped = false;
  const run = async () => {
    for (let number = 0; !isStopped; number++) {
      const action = ['uppercase', 'breaks', 'uppercase', 'sum'][number % 4];
      const data = { number, text: 'a', numbers: [number] };
      await post(`${tasks}/tasks/batch`, { tasks: Array(1 + ((number * 7) % 20)).fill({ action, data }) });
    }
  };
  const running = run();
  return () => {
    isStopped = true;
    return running;
  };
}

describeInBrowser('the truth of the task board', () => {
  it('is that of the service at the same moment: figures, tabs, running tasks, refusals and evictions', async () => {
    const { tasks } = await startWithHandlers(HANDLERS, { QUEUE_MAX_LENGTH: `${MAX_LENGTH}`, TASK_PREFETCH: '6' });
    const status = async () => (await request(`${tasks}/queue`)).body as QueueStatus;
    /** Submits until there is room: on a slow machine, the load has filled the queue. */
    const submit = (path: string, body: unknown) =>
      eventually(
        () => post(`${tasks}${path}`, body),
        ({ status }) => status === 202,
      );
    for (let i = 0; i < 3; i++) await post(`${tasks}/tasks`, { action: 'tires' });
    const answers = new Set<string>();
    const prepare = (page: Page) =>
      page.route('**/queue', async (route) => {
        const response = await route.fetch();
        answers.add(expected(await response.json()));
        await route.fulfill({ response });
      });
    await visit(`${tasks}/?state=failed`, { width: 1440, height: 900, prepare }, async (page) => {
      const agrees = (fits: (text: string) => boolean) =>
        eventually(async () => {
          const text = await shown(page);
          expect(answers).to.include(text);
          return text;
        }, fits);
      await partShows(page, 'health-backlog', /\d/);
      const stop = load(tasks);
      const seen = new Set<string>();
      await agrees((text) => seen.add(text).size >= 5);
      await stop();

      // Room after refusals: the notice of these stays.
      await submit('/tasks/batch', { tasks: Array(20).fill({ action: 'slow' }) });
      await eventually(status, ({ running, in_flight }) => running === 2 && in_flight === 6);
      await agrees((text) => text.includes('"running":2,"next":4'));
      await tab(page, 'Running').click();
      const ids = async () => {
        const listed = (await request(`${tasks}/queue/tasks?state=running`)).body.tasks.map(
          ({ id }: { id: string }) => id,
        );
        const rows = await page
          .locator('[data-row]')
          .evaluateAll((all) => all.map((row) => (row as HTMLElement).dataset.row));
        return { listed: listed.sort(), rows: rows.sort() };
      };
      await eventually(ids, ({ listed, rows }) => rows.length === 6 && rows.join() === listed.join());
      await page.getByText('Actions and workers').click();
      const worker = part(page, 'workers').locator('tr');
      await worker.nth(1).waitFor();
      expect(await worker.count()).to.equal(2);
      await page.getByText('Actions and workers').click();
      for (let refused = 0; refused < 3; ) {
        const { status } = await post(`${tasks}/tasks`, { action: 'slow' });
        if (status >= 400) refused += 1;
      }
      await agrees((text) => text.includes('"full":true,"refused":true'));
      await partShows(page, 'sentence', /The queue is full: 60 of 60 tasks.*submissions? a (minute|second) refused/);
      expect(await page.title()).to.match(/^⚠ The queue is full: 60 of 60 tasks/);
      expect((await post(`${tasks}/tasks/cancel`, { action: 'slow' })).status).to.equal(200);
      await agrees((text) => text.includes('"full":false,"refused":true'));

      await tab(page, 'Failed').click();
      const text = 'x'.repeat(LARGE);
      for (let number = 0; number < 40; number++) {
        await submit('/tasks', { action: 'breaks', data: { number, text } });
      }
      await agrees((text) => text.includes('"evicted":true'));
      await partShows(page, 'sentence', /\d+ failed tasks? w(as|ere) evicted\./);
      // In one step, because other rows are inserted before the first row meanwhile.
      const top = await eventually(
        () => page.evaluate(() => document.querySelector('.task-row')?.getBoundingClientRect().top),
        (found) => found !== undefined,
      );
      expect(top, 'the first failed row').to.be.below(760);
    });
  });
});
