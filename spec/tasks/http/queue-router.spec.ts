import { expect } from 'chai';
import type { Delivery } from '../../../db/task-store.ts';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard, retry } from '../../store/stage.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { eventually } from '../../support/until.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

describe('GET /queue', () => {
  it('accounts for every accepted task, and shows the limits, the threads and the age of the oldest task', async () => {
    const { url, submit, takeAll, settle, queued } = await startTasksServer({ maxLength: 7, maxBytes: 5000 });
    const { status, body: empty } = await request(`${url}/queue`);
    expect(status).to.equal(200);
    expect(empty.limits).to.deep.equal({ length: 7, bytes: 5000, dead_letters: 10_000, prefetch: 5 });
    expect(empty.threads).to.deep.equal({ busy: 0, total: 2, overlap: 1 });
    expect(empty).to.include({ oldest_age_seconds: null, paused: false, stalled: null });
    expect(empty.latency).to.deep.equal({ window_seconds: 300, waiting: null, running: null });

    for (let i = 0; i < 2; i++) await submit('{"action":"sum"}');
    for (const delivery of await takeAll(2)) await settle(delivery, discard());
    await submit('{"action":"sum"}');
    const { body } = await eventually(
      () => request(`${url}/queue`),
      (answer) => answer.body.oldest_age_seconds > 0,
    );
    const counts = { accepted: 3, completed: 0, dead: 2, dropped: 0, cancelled: 0, waiting: 1, delayed: 0 };
    expect(body).to.include({ ...counts, in_flight: 0 });
    const [waiting] = await queued();
    expect(body.bytes).to.equal(Buffer.byteLength(waiting?.body ?? ''));
  });
});

describe('GET /queue under load', () => {
  it('tells the tasks that run from those that were taken, and how many submissions were refused', async () => {
    const { url, queue, submit, takeAll } = await startTasksServer({ maxLength: 2 });
    for (let i = 0; i < 2; i++) await submit('{"action":"sum"}');
    const [first] = await takeAll(2);
    queue.reportStart(first as Delivery);
    expect((await submit('{"action":"sum"}')).status).to.equal(500);
    const batch = { method: 'POST', body: '{"tasks":[{"action":"sum"},{"action":"sum"}]}' };
    expect((await request(`${url}/tasks/batch`, batch)).status).to.equal(500);
    const isCounted = (answer: { body: { refused: { per_second: number } } }) => answer.body.refused.per_second > 0;
    const { body } = await eventually(() => request(`${url}/queue`), isCounted);
    expect(body).to.include({ in_flight: 2, running: 1, evicted: 0 });
    expect(body.refused).to.include({ total: 3, per_second: 0.05 });
    expect(body.refused.last_at).to.be.within(Date.now() / 1000 - 60, Date.now() / 1000);
    const minutes = (await request(`${url}/queue/history?step=60`)).body;
    expect(minutes.minutes).to.be.within(0, 1);
    expect(minutes.starts).to.have.length(1);
    const wrong = { error: 'invalid query', parameter: 'step', detail: 'must be 1 or 60' };
    expect((await request(`${url}/queue/history?step=2`)).body).to.deep.equal(wrong);
  });
});

describe('GET /queue/activity', () => {
  it('counts the tasks of each action, and tells what the threads run', async () => {
    const server = await startTasksServer();
    for (const action of ['sum', 'sum', 'mail', 'x', 'y']) await server.submitTask({ action });
    await server.submitTask({ action: 'mail', delay: 100 });
    const [first, second] = (await server.takeAll(2)) as [Delivery, Delivery];
    await server.settle(second, discard());
    server.queue.reportStart(first);
    server.metrics.attempts.of('sum').outcomes.count('failed');
    const { body } = await request(`${server.url}/queue/activity`);
    expect(body.counts_are_exact).to.equal(true);
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
  });
});

describe('POST /queue/pause and /queue/resume', () => {
  it('pause and resume the queue, any number of times, and a paused queue accepts and cancels tasks', async () => {
    const server = await startTasksServer();
    for (const [path, paused] of Object.entries({ pause: true, 'pause?': true, resume: false, 'resume?': false })) {
      const answer = await request(`${server.url}/queue/${path}`, { method: 'POST' });
      expect(answer).to.deep.include({ status: 200, body: { paused } });
      expect((await request(`${server.url}/queue`)).body).to.include({ paused });
      const { status, body } = await server.submit('{"action":"sum"}');
      expect(status).to.equal(202);
      expect(await server.queued()).to.have.length(paused ? 0 : 1);
      const cancelled = await request(`${server.tasksUrl}/${body.id}`, { method: 'DELETE' });
      expect(cancelled.status).to.equal(paused ? 204 : 202);
    }
  });
});

describe('GET /queue/history', () => {
  it('counts the events of each second', async () => {
    const { url, submit, takeAll, settle, complete } = await startTasksServer();
    for (let i = 0; i < 3; i++) await submit('{"action":"sum"}');
    const [one, two, three] = (await takeAll(3)) as [Delivery, Delivery, Delivery];
    await complete(one);
    await settle(two, retry(systemClock.now() + 60_000));
    await settle(three, discard());
    const sum = (column: number[]) => column.reduce((total, count) => total + count, 0);
    const { body } = await eventually(
      () => request(`${url}/queue/history`),
      (answer) => sum(answer.body.accepted) === 3 && sum(answer.body.failed) === 1,
    );
    expect([sum(body.completed), sum(body.retried), body.depth.at(-1)]).to.deep.equal([1, 1, 1]);
    expect(body.end).to.be.at.most(systemClock.now() / 1000);
    for (const name of ['accepted', 'completed', 'failed', 'retried', 'depth']) {
      expect(body[name]).to.have.length(body.seconds);
    }
    const later = (await request(`${url}/queue/history?since=${body.end}`)).body;
    expect(later.seconds).to.equal(later.end - body.end);
    expect((await request(`${url}/queue/history?since=999999999999`)).body.seconds).to.equal(0);
  });
});

describe('GET /queue/tasks', () => {
  const listing = async ({ url }: TasksServer, state: string) =>
    (await request(`${url}/queue/tasks?state=${state}`)).body;

  it('answers with the tasks of a state, the start of each, and the number of all', async () => {
    const server = await startTasksServer({ bodyLimit: 10_000 });
    const { id } = (await server.submit(`{"action":"sum","data":{"text":"${'ü'.repeat(1000)}"}}`)).body;
    const { tasks, ...counts } = await listing(server, 'queued');
    expect(counts).to.deep.equal({ count: 1, total: 1 });
    const delivery = await server.take();
    const { body, dueAt: accepted_at_ms } = delivery;
    const payload_bytes = Buffer.byteLength(body);
    const start = { id, action: 'sum', priority: 3, accepted_at_ms, payload: body.slice(0, 256), payload_bytes };
    expect(tasks).to.deep.equal([{ ...start, status: 'queued' }]);
    expect(await listing(server, 'queued')).to.deep.equal({ tasks: [], count: 0, total: 0 });
    expect(await listing(server, 'running')).to.deep.equal({ tasks, count: 1, total: 1 });

    server.queue.reportStart(delivery);
    server.queue.reportProgress(delivery, { fraction: 0.5 });
    const [running] = (await listing(server, 'running')).tasks;
    const { started_at_ms, ...rest } = running;
    expect(rest).to.deep.equal({ ...start, status: 'running', attempt: 1, progress: { fraction: 0.5 } });
    expect(started_at_ms).to.be.within(accepted_at_ms, systemClock.now());

    await server.settle(delivery, retry(systemClock.now() + 3_600_000));
    const [retrying] = (await listing(server, 'retrying')).tasks;
    const { next_attempt_at_ms, next_attempt_at, ...others } = retrying;
    expect(others).to.deep.equal({ ...start, status: 'retrying', attempts: 1, reason: 'it failed' });
    expect(next_attempt_at_ms).to.be.above(systemClock.now());
    expect(next_attempt_at).to.equal(Math.ceil(next_attempt_at_ms / 1000));
  });
});

describe('the queries of the queue', () => {
  const server = onceForSuite(() => startTasksServer());
  const SINCE = ['', 'x', '-1', '1.5', '9'.repeat(13)].map((value) => `since=${value}`);
  const STATE = ['', 'failed', 'Queued', 'constructor'].map((value) => `state=${value}`);

  for (const [path, queries, error] of [
    ['history', SINCE, 'since must be Unix seconds'],
    ['tasks', ['', ...STATE], 'state must be queued, limited, scheduled, running or retrying'],
  ] as const) {
    it(`are refused by GET /queue/${path} with 400: ${error}`, async () => {
      for (const query of queries) {
        const answer = await request(`${server().url}/queue/${path}?${query}`);
        expect(answer, query).to.deep.include({ status: 400, body: { error } });
      }
    });
  }

  it('are answered 500 if the queue is unavailable', async () => {
    server().queue.counts = () => Promise.reject(new Error('away'));
    for (const path of ['/queue', '/queue/tasks?state=queued']) {
      const answer = await request(server().url + path);
      expect(answer, path).to.deep.include({ status: 500, body: { error: 'queue unavailable' } });
    }
  });
});
