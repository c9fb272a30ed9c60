import { expect } from 'chai';
import type { Delivery } from '../../../db/task-store.ts';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard, retry } from '../../store/settlements.ts';
import { eventually } from '../../support/until.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const sum = (column: number[]) => column.reduce((total, count) => total + count, 0);

describe('the queue', () => {
  it('accounts in GET /queue for every accepted task, and shows the limits, the threads and the age of the oldest task', async () => {
    const { ask, queue, submitTask, takeAll, settle } = await startTasksServer({ maxLength: 3, maxBytes: 5000 });
    const [status, empty] = await ask('GET /queue');
    expect(status).to.equal(200);
    expect(empty).to.deep.include({
      ...{ limits: { length: 3, bytes: 5000, dead_letters: 10_000, prefetch: 5 }, paused: false, stalled: null },
      ...{ threads: { busy: 0, total: 2, overlap: 1 }, oldest_age_seconds: null },
      latency: { window_seconds: 300, waiting: null, running: null },
    });
    for (let i = 0; i < 3; i++) await submitTask();
    const [dead, taken, running] = (await takeAll(3)) as [Delivery, Delivery, Delivery];
    await settle(dead, discard());
    queue.reportStart(running);
    const { tasks } = (await ask('GET /queue/tasks?state=running'))[1];
    expect(tasks.map(({ id }: Delivery) => id)).to.deep.equal([running.id, taken.id]);
    await submitTask();
    const task = { action: 'sum' };
    expect((await ask('POST /tasks', task))[0]).to.equal(500);
    expect((await ask('POST /tasks/batch', { tasks: [task, task] }))[0]).to.equal(500);
    const [, body] = await eventually(
      () => ask('GET /queue'),
      // The first refusal may have been counted in an earlier second.
      ([, { oldest_age_seconds, refused }]) => oldest_age_seconds > 0 && refused.per_second >= 0.05,
    );
    const counts = { accepted: 4, completed: 0, dead: 1, dropped: 0, cancelled: 0, waiting: 1, delayed: 0, evicted: 0 };
    expect(body).to.include({ ...counts, in_flight: 2, running: 1, bytes: 3 * Buffer.byteLength(taken.body) });
    expect(body.refused).to.include({ total: 3, per_second: 0.05 });
    expect(body.refused.last_at).to.be.within(systemClock.now() / 1000 - 60, systemClock.now() / 1000);
    // A task may leave its state between the read of the tasks and that of the counts.
    const live = await queue.counts();
    queue.counts = async () => ({ ...live, waiting: 0 });
    expect((await ask('GET /queue/tasks?state=queued'))[1]).to.include({ count: 1, total: 1 });
  });

  it('answers 500 while it is unavailable, also to a change, such as a cancellation, which leaves the task', async () => {
    const { ask, queue, queued, submitTask } = await startTasksServer();
    const id = await submitTask();
    await queue.setLimits('sum', { concurrency: 1 }, 'api');
    const away = () => Promise.reject(new Error('away'));
    Object.assign(queue, { counts: away, cancel: away, setPaused: away, setLimits: away });
    const unavailable = [500, { error: 'queue unavailable' }];
    for (const line of ['GET /queue', 'GET /queue/tasks?state=queued', `DELETE /tasks/${id}`, 'DELETE /limits/sum'])
      expect(await ask(line), line).to.deep.equal(unavailable);
    for (const line of ['POST /queue/pause', 'PUT /limits/sum'])
      expect(await ask(line, { concurrency: 1 }), line).to.deep.equal(unavailable);
    expect((await queued()).map((message) => message.id)).to.deep.equal([id]);
  });

  it('counts in GET /queue/activity the tasks of each action, and tells what the threads run', async () => {
    const { ask, submitTask, takeAll, settle, queue, metrics } = await startTasksServer();
    for (const action of ['sum', 'sum', 'mail', 'x', 'y']) await submitTask({ action });
    await submitTask({ action: 'mail', delay: 100 });
    const [first, second] = (await takeAll(2)) as [Delivery, Delivery];
    await settle(second, discard());
    queue.reportStart(first);
    metrics.attempts.of('sum').outcomes.count('failed');
    const [, body] = await ask('GET /queue/activity');
    expect(body.counts_are_exact).to.equal(true);
    expect(body.window_seconds).to.be.within(0, 60);
    const none = { queued: 0, limited: 0, scheduled: 0, retrying: 0, in_flight: 0, failed: 0 };
    const idle = { per_second: 0, failure_share: null, waiting: null, running: null };
    expect(body.actions).to.deep.equal([
      { action: 'sum', ...none, in_flight: 1, failed: 1, ...idle, per_second: 0.0333, failure_share: 1 },
      { action: 'mail', ...none, queued: 1, scheduled: 1, ...idle },
      { action: 'other', ...none, queued: 2, ...idle },
    ]);
    const [{ started_at_ms, elapsed_ms, ...worker }, ...others] = body.workers;
    expect(others).to.deep.equal([]);
    expect(worker).to.deep.equal({ node: null, thread: 7, task: first.id, action: 'sum', attempt: 1 });
    expect(started_at_ms + elapsed_ms).to.be.closeTo(systemClock.now(), 5000);
    expect((await ask('GET /queue/activity?seconds=86400'))[1].actions).to.deep.equal(body.actions);
    const wrong = { error: 'invalid query', parameter: 'seconds', detail: 'must be one of 300, 900, 3600, 86400' };
    expect((await ask('GET /queue/activity?seconds=60'))[1]).to.deep.equal(wrong);
    let slices = 0;
    queue.store.reads.countActions = () => ({ found: [], next: ++slices < 30 ? [1] : undefined });
    expect((await ask('GET /queue/activity'))[1].counts_are_exact).to.equal(false);
    expect(slices).to.equal(20);
  });

  it('counts in GET /queue/history the events of each second or minute', async () => {
    const { ask, submitTask, takeAll, settle, complete } = await startTasksServer();
    for (let i = 0; i < 3; i++) await submitTask();
    const [one, two, three] = (await takeAll(3)) as [Delivery, Delivery, Delivery];
    await complete(one);
    await settle(two, retry(systemClock.now() + 60_000));
    await settle(three, discard());
    const [, { end, seconds, depth, ...counts }] = await eventually(
      () => ask('GET /queue/history'),
      ([, { accepted, failed }]) => sum(accepted) === 3 && sum(failed) === 1,
    );
    expect([sum(counts.completed), sum(counts.retried), depth.at(-1), depth.length]).to.deep.equal([1, 1, 1, seconds]);
    expect(end).to.be.at.most(systemClock.now() / 1000);
    const [, later] = await ask(`GET /queue/history?since=${end}`);
    expect(later.seconds).to.equal(later.end - end);
    expect((await ask('GET /queue/history?since=999999999999'))[1].seconds).to.equal(0);
    expect((await ask('GET /queue/history?step=60'))[1].minutes).to.be.within(0, 1);
  });
});

describe('limits', () => {
  const list = async ({ ask }: TasksServer) => (await ask('GET /limits'))[1].limits;

  it('are set, listed with their use, replaced and removed', async () => {
    const server = await startTasksServer();
    const { ask } = server;
    const limits = { concurrency: 20, rate: { count: 5, seconds: 1.5 }, per_key: { concurrency: 3 } };
    const sum = { action: 'sum', source: 'api' };
    expect(await ask('PUT /limits/sum', limits)).to.deep.equal([200, { ...sum, ...limits }]);
    const longest = `a/${'b'.repeat(198)}`;
    await ask(`PUT /limits/${encodeURIComponent(longest)}`, { rate: { count: 1, seconds: 60 } });
    await server.submitTask();
    await server.take();
    expect(await list(server)).to.deep.equal([
      { action: longest, rate: { count: 1, seconds: 60 }, source: 'api', running: 0 },
      { ...sum, ...limits, running: 1 },
    ]);
    await ask('PUT /limits/sum', { concurrency: 1 });
    expect(await ask(`DELETE /limits/${encodeURIComponent(longest)}`)).to.deep.equal([204, '']);
    expect(await list(server)).to.deep.equal([{ ...sum, concurrency: 1, running: 1 }]);
  });

  it('of the handlers module or of callbacks cannot be removed, and apply again once limits of a request are removed', async () => {
    const limits = { concurrency: 2 };
    const server = await startTasksServer({ actions: { own: { limits } }, callbackHosts: ['example.com'] });
    await server.queue.setLimits('own', limits, 'module');
    const refused = [409, { error: 'limits belong to the handlers module' }];
    expect(await server.ask('DELETE /limits/own')).to.deep.equal(refused);
    await server.ask('PUT /limits/own', { concurrency: 1 });
    expect(await server.ask('DELETE /limits/own')).to.deep.equal([204, '']);
    expect(await server.ask('DELETE /limits/own')).to.deep.equal(refused);
    await server.ask('PUT /limits/callback', { concurrency: 1 });
    await server.ask('DELETE /limits/callback');
    const callbacks = { concurrency: 64, per_key: { concurrency: 8 } };
    expect(await list(server)).to.deep.equal([
      { action: 'callback', ...callbacks, source: 'module', running: 0 },
      { action: 'own', ...limits, source: 'module', running: 0 },
    ]);
  });

  it('show what a task waits for', async () => {
    const { ask, submitTask, takeAll, find } = await startTasksServer();
    await ask('PUT /limits/sum', { concurrency: 2, per_key: { concurrency: 1 } });
    const key = '"\\\n\u0000ü😀'.padEnd(255, 'x');
    const ids: string[] = [];
    for (const limit_key of [key, key, undefined, 'o']) ids.push(await submitTask({ limit_key }));
    await takeAll(2);
    const [[, { tasks, ...counts }], search, [, queue]] = await Promise.all([
      ask('GET /queue/tasks?state=limited'),
      ask('GET /tasks/search?state=limited'),
      ask('GET /queue'),
    ]);
    const byKey = { limited_by: 'key', limit: { action: 'sum', key, concurrency: 1, running: 1 } };
    const byAction = { limited_by: 'action', limit: { action: 'sum', concurrency: 2, running: 2 } };
    for (const [index, id, shown] of [
      [0, ids[1], { ...byKey, limit_key: key }],
      [1, ids[3], byAction],
    ] as const) {
      expect(tasks[index]).to.deep.include({ id, status: 'limited', ...shown });
      expect(await find(id ?? '')).to.deep.include({ status: 'limited', ...shown });
    }
    expect(counts).to.deep.equal({ count: 2, total: 2 });
    expect(search[1].tasks).to.deep.equal(tasks);
    expect(queue).to.include({ accepted: 4, waiting: 0, limited: 2, in_flight: 2 });
    expect(await find(ids[0] ?? '')).to.include({ limit_key: key });
  });

  it('show when a rate lets the next task start', async () => {
    const { ask, submitTask, take, store, find } = await startTasksServer();
    const rate = { count: 1, seconds: 3600 };
    await ask('PUT /limits/sum', { rate });
    const ids = [await submitTask(), await submitTask()];
    const startedAt = 1_000_000;
    await store.report([{ delivery: await take(), startedAt, progress: undefined }]);
    const { limit } = await find(ids[1] ?? '');
    expect(limit).to.deep.equal({ action: 'sum', rate, running: 1, next_start_at_ms: startedAt + 3_600_000 });
  });

  it('are refused for an action that submissions may not have, and for more than 1000 actions', async () => {
    const actions = { own: { schema: { type: 'object', required: ['n'] } } };
    const strict = await startTasksServer({ actions, rejectUnknown: true });
    const unknown = { error: 'unknown action', nearest: ['own'] };
    expect(await strict.ask('PUT /limits/owm', { concurrency: 1 })).to.deep.equal([400, unknown]);
    expect((await strict.ask('PUT /limits/own', { concurrency: 1 }))[0]).to.equal(200);
    const { ask, store } = await startTasksServer();
    const stored = Array.from({ length: 1000 }, (_, index) => `action ${index}`);
    const use = { running: 0, nextStartAt: undefined };
    store.limits = () => stored.map((action) => ({ action, limits: {}, source: 'api', use }));
    const full = { error: 'at most 1000 actions can have limits' };
    expect(await ask('PUT /limits/sum', { concurrency: 1 })).to.deep.equal([400, full]);
    expect((await ask('PUT /limits/action%207', { concurrency: 2 }))[0]).to.equal(200);
  });
});
