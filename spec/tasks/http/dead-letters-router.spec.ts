import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { discard } from '../../store/settlements.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

async function discardTasks(server: TasksServer, count: number, reason = 'bad data', data = {}) {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push(await server.submitTask({ data }));
  for (const delivery of await server.takeAll(count)) await server.settle(delivery, discard(reason));
  return ids;
}

const changed = (count: number, remaining = 0) => [200, { count, remaining }];

describe('GET /dead-letters', () => {
  it('answers with up to 100 dead letters, all, those before a task or with a reason, the latest first, as GET /tasks/:id shows each', async () => {
    const server = await startTasksServer();
    expect(await server.ask('GET /dead-letters')).to.deep.equal([200, { dead_letters: [], count: 0 }]);
    const [old] = await discardTasks(server, 1, 'ä & b');
    const [first, second, third] = await discardTasks(server, 3);
    for (const [query, ids] of [
      ['', [third, second, first, old]],
      [`?before=${third}`, [second, first, old]],
      [`?reason=${encodeURIComponent('ä & b')}`, [old]],
      [`?reason=bad%20data&before=${second}`, [first]],
      ['?reason=x', []],
    ] as const)
      expect(await server.listed(`/dead-letters${query}`)).to.deep.equal(ids);
    const [letter] = (await server.ask('GET /dead-letters'))[1].dead_letters;
    const failed = { status: 'failed', reason: 'bad data', attempts: 1, permanent: true, waited_ms: null, ran_ms: 0 };
    expect(letter).to.include(failed);
    expect(letter.history).to.have.length(1);
    expect(letter.history[0]).to.include({ started_at_ms: null, reason: 'bad data' });
    expect(letter.last_at).to.be.at.least(Math.floor(letter.history[0].ended_at_ms / 1000));
    expect(await server.find(letter.id)).to.deep.equal(letter);
    await discardTasks(server, 1, 'timeout');
    await discardTasks(server, 99);
    expect(await server.listed('/dead-letters?cause=bad+data'), 'of 102').to.have.length(100);
  });

  it('answers with summaries, which cut no character of a payload in half', async () => {
    const server = await startTasksServer();
    const [id = ''] = await discardTasks(server, 1, 'bad data', { text: 'ä'.repeat(300) });
    const text = 'a'.repeat(255);
    await server.queue.publish({ id: randomUUID(), action: undefined, body: `${text}😀` });
    await server.settle(await server.take(), discard());
    const [foreign, letter] = (await server.ask('GET /dead-letters?summary=1'))[1].dead_letters;
    expect(foreign).to.include({ action: null, payload: text, payload_bytes: 259 });
    const whole = await server.find(id);
    const { history, waited_ms, ran_ms, payload, ...rest } = whole;
    const start = { payload: payload.slice(0, 256), payload_bytes: Buffer.byteLength(payload) };
    expect(letter).to.deep.equal({ ...rest, action: 'sum', cause: 'bad data', ...start });
    expect((await server.ask('GET /dead-letters?summary=0'))[1].dead_letters[1]).to.deep.equal(whole);
  });
});

describe('a dead letter', () => {
  it('is redriven with an empty history, or purged', async () => {
    const server = await startTasksServer();
    const [first = '', second] = await discardTasks(server, 2);
    const { status, headers, body } = await request(`${server.url}/dead-letters/${first}/retry`, { method: 'POST' });
    expect([status, body]).to.deep.equal([202, { id: first, status: 'queued' }]);
    expect(headers.get('location')).to.equal(`/tasks/${first}`);
    expect(await server.find(first)).to.deep.include({ status: 'queued', history: [] });
    expect(await server.ask(`DELETE /dead-letters/${second}`)).to.deep.equal([204, '']);
    expect((await server.ask(`GET /tasks/${second}`))[0]).to.equal(404);
    expect(await server.queue.counts()).to.include({ accepted: 2, waiting: 1, dead: 0, dropped: 1 });
  });
});

describe('POST /dead-letters/redrive and /dead-letters/purge', () => {
  it('redrive and purge those with these ids, of a reason, or of a cause, an action and a time, which /dead-letters/reasons counts', async () => {
    const server = await startTasksServer();
    const { ask } = server;
    const [a, b = ''] = await discardTasks(server, 2);
    await discardTasks(server, 3, 'timeout');
    const [first] = await discardTasks(server, 1, 'card "4711" declined after 20 ms');
    const [second] = await discardTasks(server, 1, 'card "815" declined after 3 ms');
    const [other] = await discardTasks(server, 1, 'no connection to 10.0.0.1:5432');
    const [, { causes: all, total }] = await ask('GET /dead-letters/reasons');
    expect([all[0].cause, ...all.map(({ count }: { count: number }) => count)]).to.deep.equal(['timeout', 3, 2, 2, 1]);
    expect(total).to.equal(8);
    expect((await ask('GET /dead-letters/reasons?cause=x'))[1].causes).to.deep.equal([]);
    expect(await server.listed('/dead-letters?cause=bad+data&action=sum&summary=1')).to.have.members([a, b]);
    const [, { causes }] = await ask('GET /dead-letters/reasons?text=DECLINED');
    const [{ first_at, last_at, minutes, ...cause }] = causes;
    expect(last_at).to.be.at.least(first_at);
    expect([minutes.length, minutes.reduce((sum: number, count: number) => sum + count, 0)]).to.deep.equal([30, 2]);
    const reasons = ['card "815" declined after 3 ms', 'card "4711" declined after 20 ms'];
    const counted = { cause: 'card … declined after … ms', action: 'sum', count: 2, permanent: 2 };
    expect(causes).to.have.length(1);
    expect(cause).to.deep.equal({ ...counted, reasons: reasons.map((reason) => ({ reason, count: 1 })) });
    const filter = { cause: cause.cause, action: 'sum', since: first_at };
    const query = new URLSearchParams({ ...filter, since: `${first_at}`, limit: '0' });
    const preview = { tasks: [], count: 0, total: 2, total_is_exact: true, next_cursor: null };
    expect((await ask(`GET /tasks/search?${query}`))[1]).to.deep.equal(preview);
    for (const [change, selection, count] of [
      ['redrive', { ids: [a] }, 1],
      ['redrive', { ...filter, action: 'x' }, 0],
      ['redrive', { ...filter, until: 1 }, 0],
      ['redrive', filter, 2],
      ['purge', { reason: 'timeout' }, 3],
      ['purge', { id: other?.slice(0, 13), cause: 'no connection to …' }, 1],
    ] as const)
      expect(await ask(`POST /dead-letters/${change}`, selection)).to.deep.equal(changed(count));
    expect((await server.queued()).map(({ id }) => id)).to.deep.equal([a, first, second]);
    expect(await server.listed('/dead-letters')).to.deep.equal([b]);
    expect(await ask('POST /dead-letters/purge', { all: true })).to.deep.equal(changed(1));
    expect(await server.listed('/dead-letters')).to.deep.equal([]);
  });

  it('redrive at a pace, oldest first, so that each task shows when it is due', async () => {
    const server = await startTasksServer();
    const fast = await server.ask('POST /dead-letters/redrive', { all: true, per_second: 10_000 });
    expect(fast).to.deep.equal(changed(0));
    const ids = await discardTasks(server, 2);
    expect(await server.ask('POST /dead-letters/redrive', { all: true, per_second: 0.01 })).to.deep.equal(changed(2));
    const [, { tasks }] = await server.ask('GET /queue/tasks?state=scheduled');
    expect(tasks.map(({ id }: { id: string }) => id)).to.deep.equal(ids);
    expect(tasks[1].run_at_ms - tasks[0].run_at_ms).to.equal(100_000);
  });
});
