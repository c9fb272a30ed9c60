import { expect } from 'chai';
import type { Delivery } from '../../../db/task-store.ts';
import { discard, retry } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { eventually } from '../../support/until.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

describe('GET /queue', () => {
  it('accounts for every task that was accepted', async () => {
    const { url, submit, takeAll, settle, queued } = await startTasksServer();
    for (let i = 0; i < 2; i++) await submit('{"action":"sum"}');
    for (const delivery of await takeAll(2)) await settle(delivery, discard());
    await submit('{"action":"sum"}');
    const { status, body } = await request(`${url}/queue`);
    expect(status).to.equal(200);
    const counts = { accepted: 3, completed: 0, dead: 2, dropped: 0, cancelled: 0, waiting: 1, delayed: 0 };
    expect(body).to.include({ ...counts, in_flight: 0 });
    const [waiting] = await queued();
    expect(body.bytes).to.equal(Buffer.byteLength(waiting?.body ?? ''));
  });

  it('shows the limits, the threads, and the age of the oldest task', async () => {
    const { url, submit } = await startTasksServer({ maxLength: 7, maxBytes: 5000 });
    const { body } = await request(`${url}/queue`);
    expect(body.limits).to.deep.equal({ length: 7, bytes: 5000, dead_letters: 10_000, prefetch: 5 });
    expect(body.threads).to.deep.equal({ busy: 0, total: 2, overlap: 1 });
    expect(body).to.include({ oldest_age_seconds: null, paused: false, stalled: null });
    expect(body.latency).to.deep.equal({ window_seconds: 300, waiting: null, running: null });
    await submit('{"action":"sum"}');
    await eventually(
      () => request(`${url}/queue`),
      (answer) => answer.body.oldest_age_seconds > 0,
    );
  });

  it('says why no task can be processed', async () => {
    const { url, health } = await startTasksServer();
    const before = Math.floor(Date.now() / 1000);
    health.problem = 'database or disk is full';
    const stalled = async () => (await request(`${url}/queue`)).body.stalled;
    const { reason, since } = await eventually(stalled, (found) => found !== null);
    expect(reason).to.equal('database or disk is full');
    expect(since).to.be.within(before, Date.now() / 1000);
    health.problem = undefined;
    await eventually(stalled, (found) => found === null);
  });

  it('takes no other method', async () => {
    const { url } = await startTasksServer();
    for (const path of ['/queue', '/queue/history']) {
      const { status, headers } = await request(url + path, { method: 'DELETE' });
      expect([status, headers.get('allow')], path).to.deep.equal([405, 'GET, HEAD, OPTIONS']);
    }
  });
});

describe('GET /queue/history', () => {
  it('counts the events of each second', async () => {
    const { url, submit, takeAll, settle, complete } = await startTasksServer();
    for (let i = 0; i < 3; i++) await submit('{"action":"sum"}');
    const [one, two, three] = (await takeAll(3)) as [Delivery, Delivery, Delivery];
    await complete(one);
    await settle(two, retry(Date.now() + 60_000));
    await settle(three, discard());
    const sum = (column: number[]) => column.reduce((total, count) => total + count, 0);
    const { body } = await eventually(
      () => request(`${url}/queue/history`),
      (answer) => sum(answer.body.accepted) === 3 && sum(answer.body.failed) === 1,
    );
    expect([sum(body.completed), sum(body.retried), body.depth.at(-1)]).to.deep.equal([1, 1, 1]);
    expect(body.end).to.be.closeTo(Date.now() / 1000, 60);
    for (const name of ['accepted', 'completed', 'failed', 'retried', 'depth']) {
      expect(body[name]).to.have.length(body.seconds);
    }
    const later = (await request(`${url}/queue/history?since=${body.end}`)).body;
    expect(later.seconds).to.equal(later.end - body.end);
  });

  it('refuses a `since` that is not in Unix seconds', async () => {
    const { url } = await startTasksServer();
    for (const query of ['since=', 'since=x', 'since=-1', 'since=1.5', 'since=1&since=2', `since=${'9'.repeat(13)}`]) {
      const { status, body } = await request(`${url}/queue/history?${query}`);
      expect([status, body], query).to.deep.equal([400, { error: 'since must be Unix seconds' }]);
    }
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
    const { body, acceptedAt: accepted_at_ms } = delivery;
    const start = {
      id,
      action: 'sum',
      accepted_at_ms,
      payload: body.slice(0, 256),
      payload_bytes: Buffer.byteLength(body),
    };
    expect(tasks).to.deep.equal([{ ...start, status: 'queued' }]);
    expect(await listing(server, 'queued')).to.deep.equal({ tasks: [], count: 0, total: 0 });
    expect(await listing(server, 'running')).to.deep.equal({ tasks, count: 1, total: 1 });

    server.queue.reportStart(delivery);
    server.queue.reportProgress(delivery, { fraction: 0.5 });
    const [running] = (await listing(server, 'running')).tasks;
    const { started_at_ms, ...rest } = running;
    expect(rest).to.deep.equal({ ...start, status: 'running', attempt: 1, progress: { fraction: 0.5 } });
    expect(started_at_ms).to.be.within(accepted_at_ms, Date.now());

    await server.settle(delivery, retry(Date.now() + 60_000));
    const [retrying] = (await listing(server, 'retrying')).tasks;
    const { next_attempt_at_ms, next_attempt_at, ...others } = retrying;
    expect(others).to.deep.equal({ ...start, status: 'retrying', attempts: 1, reason: 'it failed' });
    expect(next_attempt_at_ms).to.be.above(Date.now());
    expect(next_attempt_at).to.equal(Math.ceil(next_attempt_at_ms / 1000));
  });

  it('needs one of three states', async () => {
    const { url } = await startTasksServer();
    for (const query of [
      '',
      '?state=',
      '?state=failed',
      '?state=Queued',
      '?state=queued&state=queued',
      '?state=constructor',
    ]) {
      const { status, body } = await request(`${url}/queue/tasks${query}`);
      expect([status, body], query).to.deep.equal([400, { error: 'state must be queued, running or retrying' }]);
    }
    const { status, headers } = await request(`${url}/queue/tasks`, { method: 'DELETE' });
    expect([status, headers.get('allow')]).to.deep.equal([405, 'GET, HEAD, OPTIONS']);
  });

  it('says so when the queue cannot be asked', async () => {
    const { url, queue } = await startTasksServer();
    queue.counts = async () => {
      throw new Error('away');
    };
    for (const path of ['/queue', '/queue/tasks?state=queued']) {
      const { status, body } = await request(url + path);
      expect([status, body], path).to.deep.equal([500, { error: 'queue unavailable' }]);
    }
  });
});
