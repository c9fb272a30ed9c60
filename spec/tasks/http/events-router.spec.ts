import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import type { QueueEvent } from '../../../main/tasks/task-events.ts';
import { request } from '../../support/program.ts';
import { until } from '../../support/until.ts';
import { followEvents } from './event-client.ts';
import { startTasksServer } from './tasks-server.ts';

/** Returns the id of a numbered task. */
const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
const [A, B] = [idOf(1), idOf(2)];

describe('GET /tasks/events', () => {
  it('reports each step of a task, named like its status', async () => {
    const { url, events } = await startTasksServer();
    const client = await followEvents(url);
    const subject = { id: A, action: 'sum', at: 5 };
    const due = { next_attempt_at: 2, next_attempt_at_ms: 1500 };
    const steps: [QueueEvent, object][] = [
      [
        { event: 'accepted', ...subject },
        { ...subject, status: 'queued' },
      ],
      [
        { event: 'started', ...subject, attempt: 1 },
        { ...subject, status: 'running', attempt: 1 },
      ],
      [
        { event: 'progress', ...subject, attempt: 1, fraction: 0.5, note: 'half' },
        { ...subject, status: 'running', attempt: 1, progress: { fraction: 0.5, note: 'half' } },
      ],
      [
        { event: 'retrying', ...subject, attempts: 1, reason: 'no', dueAt: 1500 },
        { ...subject, status: 'retrying', attempts: 1, reason: 'no', ...due },
      ],
      [
        { event: 'completed', ...subject },
        { ...subject, status: 'completed' },
      ],
      [
        { event: 'failed', ...subject, id: B, attempts: 5, reason: 'line\n\nbreaks' },
        { ...subject, id: B, status: 'failed', attempts: 5, reason: 'line\n\nbreaks' },
      ],
      [
        { event: 'cancelled', id: B, action: undefined, at: 6 },
        { id: B, status: 'cancelled', at: 6 },
      ],
      [{ event: 'purged', ...subject }, subject],
      [{ event: 'paused', at: 1500 }, { at: 1500 }],
      [{ event: 'resumed', at: 2500 }, { at: 2500 }],
    ];
    for (const [event] of steps) events.record(event);
    for (const [{ event }, data] of steps) {
      const received = await client.next();
      expect(received).to.include({ event });
      expect(received?.data).to.deep.equal(data);
    }
  });

  it('is an event stream that no proxy caches or buffers', async () => {
    const { url } = await startTasksServer();
    const { response } = await followEvents(url);
    expect(response.status).to.equal(200);
    expect(response.headers.get('content-type')).to.equal('text/event-stream; charset=utf-8');
    expect(response.headers.get('cache-control')).to.equal('no-store');
    expect(response.headers.get('x-accel-buffering')).to.equal('no');
  });

  it('goes on after the last event that a client has seen', async () => {
    const { url, submit } = await startTasksServer();
    const first = await followEvents(url);
    await submit('{"action":"sum"}');
    const seen = await first.next();
    first.close();
    const { body } = await submit('{"action":"sum"}');
    const second = await followEvents(url, seen?.id);
    const next = await second.next();
    expect(next).to.include({ event: 'accepted' });
    expect(next?.data).to.include({ id: body.id, status: 'queued', action: 'sum' });
  });

  it('gives a client an id before anything happens, so that it misses nothing when it is cut off', async () => {
    const { url, submit, events } = await startTasksServer();
    const first = await followEvents(url);
    const id = events.idOf(events.now());
    first.close();
    await until(() => events.subscribers === 0);
    await submit('{"action":"sum"}');
    expect(await (await followEvents(url, id)).next()).to.include({ event: 'accepted' });
  });

  it('says so when events are lost: how many, or that it is not known', async () => {
    const { url, events } = await startTasksServer();
    await followEvents(url);
    const id = events.idOf(events.now());
    for (let n = 0; n < 10_003; n++) events.record({ event: 'completed', id: idOf(n), at: 1 });
    const late = await followEvents(url, id);
    expect(await late.next()).to.deep.include({ event: 'gap', data: { missed: 3 } });
    expect(await late.next()).to.deep.include({
      event: 'completed',
      data: { id: idOf(3), status: 'completed', at: 1 },
    });
    const foreign = await followEvents(url, 'another-1');
    expect(await foreign.next()).to.deep.include({ event: 'gap', data: { missed: null } });
    events.record({ event: 'completed', id: A, at: 1 });
    expect(await foreign.next()).to.deep.include({ event: 'completed', data: { id: A, status: 'completed', at: 1 } });
  });

  it('buffers little for a client that does not read, and reports the gap to it', async () => {
    const { url, events, sockets } = await startTasksServer();
    const client = await followEvents(url);
    const [socket] = [...sockets];
    const reason = 'x'.repeat(1000);
    const written = () => (socket?.writableLength ?? 0) > 0;
    let noted = 0;
    // Far more than the socket buffers hold.
    await until(() => {
      for (let n = 0; n < 500; n++) events.record({ event: 'failed', id: idOf(noted++), at: 1, attempts: 1, reason });
      return written() && noted >= 30_000;
    });
    expect(socket?.writableLength).to.be.below(3_000_000);
    let next = 0;
    let missed = 0;
    while (next < noted) {
      const received = await client.next();
      if (received?.event === 'gap') missed += received.data.missed;
      else expect(received?.data.id).to.equal(idOf(next));
      next = received?.event === 'gap' ? next + received.data.missed : next + 1;
    }
    expect(missed).to.be.greaterThan(0);
  });

  it('releases a disconnected client', async () => {
    const { url, events } = await startTasksServer();
    const client = await followEvents(url);
    expect(events.subscribers).to.equal(1);
    client.close();
    await until(() => events.subscribers === 0);
  });

  it('takes a hundred clients, and refuses the next', async () => {
    const { url } = await startTasksServer({ trustProxy: 1 });
    for (let client = 0; client < 100; client++) await followEvents(url, undefined, `10.0.0.${client % 4}`);
    const { status, headers, body } = await request(`${url}/tasks/events`);
    expect({ status, body }).to.deep.equal({ status: 503, body: { error: 'too many connections' } });
    expect(headers.get('retry-after')).to.equal('5');
  });

  it('takes 25 clients of one address, refuses its next, and takes those of others', async () => {
    const { url, events } = await startTasksServer({ trustProxy: 1 });
    const clients = [];
    for (let client = 0; client < 25; client++) clients.push(await followEvents(url, undefined, '10.0.0.1'));
    const headers = { 'X-Forwarded-For': '10.0.0.1' };
    for (const method of ['GET', 'HEAD']) {
      const refused = await request(`${url}/tasks/events`, { method, headers });
      expect([refused.status, refused.headers.get('retry-after')], method).to.deep.equal([429, '5']);
      if (method === 'GET') expect(refused.body).to.deep.equal({ error: 'too many connections from this address' });
    }
    expect((await followEvents(url, undefined, '10.0.0.2')).response.status).to.equal(200);
    clients[0]?.close();
    await until(() => events.subscribers === 25);
    expect((await followEvents(url, undefined, '10.0.0.1')).response.status).to.equal(200);
  });

  it('counts a client that is known by its socket alone, too', async () => {
    const { url } = await startTasksServer();
    for (let client = 0; client < 25; client++) await followEvents(url, undefined, `10.0.0.${client}`);
    expect((await request(`${url}/tasks/events`)).status).to.equal(429);
  });

  it('ends when the service stops', async () => {
    const { url, events } = await startTasksServer();
    const client = await followEvents(url);
    events.close();
    expect(await client.next()).to.equal(undefined);
  });

  it('writes nothing after its end to a client that does not read', async () => {
    const { url, events, sockets } = await startTasksServer();
    const client = await followEvents(url);
    const [socket] = [...sockets];
    await until(() => {
      for (let n = 0; n < 500; n++)
        events.record({ event: 'failed', id: idOf(n), at: 1, attempts: 1, reason: 'x'.repeat(1000) });
      return (socket?.writableLength ?? 0) > 0;
    });
    events.close();
    events.record({ event: 'completed', id: idOf(0), at: 1 });
    // An exception in a timer of the stream fails this test. This later timer fires after it.
    await setTimeout(200);
    while ((await client.next()) !== undefined);
  });

  it('answers HEAD without a stream, and refuses other methods', async () => {
    const { url, events } = await startTasksServer();
    expect((await request(`${url}/tasks/events`, { method: 'HEAD' })).status).to.equal(200);
    expect(events.subscribers).to.equal(0);
    const { status, headers } = await request(`${url}/tasks/events`, { method: 'DELETE' });
    expect([status, headers.get('allow')]).to.deep.equal([405, 'GET, HEAD, OPTIONS']);
  });
});
