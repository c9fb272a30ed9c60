import { randomUUID } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard, retry } from '../../store/settlements.ts';
import { afterTest, onceForSuite } from '../../support/cleanup.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { request } from '../../support/program.ts';
import { connectRaw } from '../../support/raw-connection.ts';
import { until } from '../../support/until.ts';
import { followEvents } from './event-client.ts';
import { idOf, RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const A = idOf(1);
const completed = { event: 'completed', id: A, at: 1 } as const;

/** Records thousands of events, which are not compared with the contract, until the socket of the client holds data back. */
async function recordUntilFull({ events, sockets }: TasksServer, atLeast = 0, between = () => {}): Promise<void> {
  const [socket] = [...sockets];
  const reason = 'x'.repeat(1000);
  let count = 0;
  await until(() => {
    between();
    for (let n = 0; n < 10_000; n++) events.record({ event: 'failed', id: idOf(count++), at: 1, attempts: 1, reason });
    return (socket?.writableLength ?? 0) > 0 && count >= atLeast;
  });
  expect(socket?.writableLength).to.be.below(3_000_000);
}

describe('GET /tasks/events', () => {
  const server = onceForSuite(() => startTasksServer());

  it('reports each step of a task, named like its status, and each pause of the queue', async () => {
    const { url, ask, events, submitTask, take, settle, queue } = server();
    const client = await followEvents(url);
    const id = await submitTask();
    const start = async () => {
      const delivery = await take();
      queue.reportStart(delivery);
      return delivery;
    };
    const next_attempt_at_ms = systemClock.now();
    const first = await start();
    queue.reportProgress(first, { fraction: 0.5, note: 'half' });
    await settle(first, retry(next_attempt_at_ms, 'line\n\nbreaks'));
    await settle(await start(), discard('bad data'));
    await queue.redrive({});
    await settle(await start(), { kind: 'complete', result: RESULT });
    const failing = await submitTask();
    await settle(await start(), discard('no'));
    await queue.purge({});
    const cancelled = await submitTask();
    await queue.cancel(cancelled);
    const later = await submitTask({ delay: 3600 });
    await ask(`POST /tasks/${later}/run`);
    events.record({ event: 'paused', at: 1500 });
    const due = { next_attempt_at: Math.ceil(next_attempt_at_ms / 1000), next_attempt_at_ms };
    const running = { id, status: 'running', attempt: 1 };
    const queued = { id, status: 'queued' };
    const steps: [event: string, data: object][] = [
      ['accepted', queued],
      ['started', running],
      ['progress', { ...running, progress: { fraction: 0.5, note: 'half' } }],
      ['retrying', { id, status: 'retrying', attempts: 1, reason: 'line\n\nbreaks', ...due }],
      ['started', { ...running, attempt: 2 }],
      ['failed', { id, status: 'failed', attempts: 2, reason: 'bad data' }],
      ['accepted', queued],
      ['started', running],
      ['completed', { id, status: 'completed' }],
      ['accepted', { ...queued, id: failing }],
      ['started', { ...running, id: failing }],
      ['failed', { id: failing, status: 'failed', attempts: 1, reason: 'no' }],
      ['purged', { id: failing }],
      ['accepted', { ...queued, id: cancelled }],
      ['cancelled', { id: cancelled, status: 'cancelled' }],
      ['scheduled', { id: later, status: 'scheduled' }],
      ['accepted', { ...queued, id: later }],
    ];
    for (const [event, data] of steps) {
      const received = await client.next();
      const { at: _, run_at_ms, ...rest } = received?.data ?? {};
      expect([received?.event, rest]).to.deep.equal([event, { ...data, action: 'sum' }]);
      if (event === 'scheduled') expect(run_at_ms).to.be.above(systemClock.now());
    }
    const paused = await client.next();
    expect([paused?.event, paused?.data]).to.deep.equal(['paused', { at: 1500 }]);
  });

  it('is an event stream that no proxy caches or buffers, with an id before the first event, after which it can be continued', async () => {
    const { url, submitTask, events } = await startTasksServer();
    const first = await followEvents(url);
    const { status, headers } = first.response;
    const named = ['content-type', 'cache-control', 'x-accel-buffering'].map((name) => headers.get(name));
    expect([status, ...named]).to.deep.equal([200, 'text/event-stream; charset=utf-8', 'no-store', 'no']);
    expect((await request(`${url}/tasks/events`, { method: 'HEAD' })).status).to.equal(200);
    const id = events.idOf(events.now());
    first.close();
    await until(() => events.subscribers === 0);
    await submitTask();
    expect(await (await followEvents(url, { 'Last-Event-ID': id })).next()).to.include({ event: 'accepted' });
  });

  it('reports how many events are lost, or that their number is unknown', async () => {
    const { url, events } = server();
    await followEvents(url);
    const id = events.idOf(events.now());
    for (let n = 0; n < 10_003; n++) events.record({ ...completed, id: idOf(n) });
    const late = await followEvents(url, { 'Last-Event-ID': id });
    expect(await late.next()).to.deep.include({ event: 'gap', data: { missed: 3 } });
    expect((await late.next())?.data).to.deep.equal({ id: idOf(3), status: 'completed', at: 1 });
    const [epoch] = id.split('-');
    for (const unknown of ['1', 'another-1', `${epoch}-999999`, `${epoch}--1`, `${epoch}-1e0`, `${epoch}-`]) {
      const client = await followEvents(url, { 'Last-Event-ID': unknown });
      expect(await client.next(), unknown).to.deep.include({ event: 'gap', data: { missed: null } });
      events.record(completed);
      expect((await client.next())?.data).to.deep.equal({ id: A, status: 'completed', at: 1 });
      client.close();
    }
  });

  it('buffers little for a client that does not read, and reports the gap to it', async () => {
    const clock = new ManualClock();
    const own = await startTasksServer({ realRows: false, clock });
    const client = await followEvents(own.url);
    // Far more than the socket buffers hold.
    await recordUntilFull(own, 30_000, () => clock.advance(50));
    const writes = setInterval(() => clock.advance(50), 1);
    afterTest(() => clearInterval(writes));
    let next = 0;
    let received = await client.next();
    for (; received?.event !== 'gap'; received = await client.next()) expect(received?.data.id).to.equal(idOf(next++));
    const { missed } = received.data;
    expect(missed).to.be.greaterThan(0);
    expect((await client.next())?.data.id).to.equal(idOf(next + missed));
  });

  it('accepts 25 clients of one address, and others when one of them has disconnected, and 100 clients in all', async () => {
    const { url, events } = await startTasksServer({ trustProxy: 1 });
    // The client writes the first address, the proxy the last one.
    const follow = (address: string) => followEvents(url, { 'X-Forwarded-For': `${randomUUID()}, ${address}` });
    const refused = async (address: string, method = 'GET') => {
      const answer = await request(`${url}/tasks/events`, { method, headers: { 'X-Forwarded-For': address } });
      expect(answer.headers.get('retry-after')).to.equal('5');
      return [answer.status, answer.body.error];
    };
    const first = await follow('10.0.0.1');
    for (let client = 1; client < 25; client++) await follow('10.0.0.1');
    expect(await refused('10.0.0.1')).to.deep.equal([429, 'too many connections from this address']);
    expect(await refused('10.0.0.1', 'HEAD')).to.deep.equal([429, undefined]);
    first.close();
    await until(() => events.subscribers === 24);
    await follow('10.0.0.1');
    for (let client = 0; client < 75; client++) await follow(`10.0.1.${client % 3}`);
    expect(await refused('10.0.0.2')).to.deep.equal([503, 'too many connections']);
  });

  it('counts clients by the address of their socket if no proxy is trusted', async () => {
    const { url, port } = await startTasksServer({ realRows: false });
    // A HEAD request does not count as a client, although its connection stays open.
    await (await connectRaw(port, 'HEAD /tasks/events HTTP/1.1', 'Host: x')).until(/\r\n\r\n/);
    for (let client = 1; client < 25; client++) await followEvents(url, { 'X-Forwarded-For': `10.0.0.${client}` });
    expect((await followEvents(url)).response.status).to.equal(200);
    expect((await request(`${url}/tasks/events`)).status).to.equal(429);
  });

  it('has a comment every 15 s while the client reads, and ends when the service stops, even if the client does not read', async () => {
    const clock = new ManualClock();
    const own = await startTasksServer({ realRows: false, clock });
    const stream = await connectRaw(own.port, 'GET /tasks/events HTTP/1.1', 'Host: x', 'Connection: close');
    const { socket, ended } = stream;
    await until(() => own.events.subscribers === 1);
    clock.advance(30_000);
    await stream.until(/\n:\n[\s\S]*\n:\n/);
    socket.pause();
    await recordUntilFull(own, 0, () => clock.advance(50));
    const [connection] = own.sockets;
    const held = connection?.writableLength ?? 0;
    clock.advance(60_000);
    await turn();
    expect(connection?.writableLength, 'no more comments').to.be.at.most(held);
    own.events.record(completed);
    own.events.close();
    own.events.record(completed);
    expect(clock.timers).to.equal(0);
    socket.resume();
    await ended;
  });
});
