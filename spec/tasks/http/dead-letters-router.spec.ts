import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { ByteBudget } from '../../../main/http/byte-budget.ts';
import { discard } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const FIELDS = [
  'id',
  'status',
  'priority',
  'payload',
  'reason',
  'attempts',
  'permanent',
  'first_at',
  'last_at',
] as const;

/** Submits tasks and discards them in order. Returns their ids. */
async function discardTasks(
  { submitTask, takeAll, settle }: TasksServer,
  count: number,
  reason = 'bad data',
  data: object = {},
): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push(await submitTask({ data }));
  for (const delivery of await takeAll(count)) await settle(delivery, discard(reason));
  return ids;
}

/** Returns the listed ids, which must be as many as the count says. */
async function listed({ url }: TasksServer, query = ''): Promise<string[]> {
  const { status, body } = await request(`${url}/dead-letters${query}`);
  expect([status, body.count], query).to.deep.equal([200, body.dead_letters.length]);
  return body.dead_letters.map(({ id }: { id: string }) => id);
}

describe('GET /dead-letters', () => {
  it('answers with the dead letters, the latest first, as GET /tasks/:id shows each', async () => {
    const server = await startTasksServer();
    const { body: empty } = await request(`${server.url}/dead-letters`);
    expect(empty).to.deep.equal({ dead_letters: [], count: 0 });
    const ids = await discardTasks(server, 3);
    expect(await listed(server)).to.deep.equal(ids.toReversed());
    for (const letter of (await request(`${server.url}/dead-letters`)).body.dead_letters) {
      expect(letter).to.have.all.keys(...FIELDS, 'waited_ms', 'ran_ms', 'history');
      expect(letter).to.include({ status: 'failed', reason: 'bad data', attempts: 1, permanent: true });
      expect(letter.history).to.have.length(1);
      expect(letter).to.include({ waited_ms: null, ran_ms: 0 });
      expect(letter.history[0]).to.include({ started_at_ms: null, reason: 'bad data' });
      expect(letter.last_at).to.be.at.least(Math.floor(letter.history[0].ended_at_ms / 1000));
      expect((await request(`${server.tasksUrl}/${letter.id}`)).body).to.deep.equal(letter);
    }
  });

  it('answers with those before a task, all or those with a reason', async () => {
    const server = await startTasksServer();
    const [old] = await discardTasks(server, 1, 'ä & b');
    const [first, second, third] = await discardTasks(server, 3);
    expect(await listed(server, `?before=${third}`)).to.deep.equal([second, first, old]);
    expect(await listed(server, `?reason=${encodeURIComponent('ä & b')}`)).to.deep.equal([old]);
    expect(await listed(server, `?reason=bad%20data&before=${second}`)).to.deep.equal([first]);
    expect(await listed(server, '?reason=x')).to.deep.equal([]);
    for (const [query, error] of [
      ['before=x', 'before is unknown'],
      ['before=', 'before is unknown'],
    ]) {
      const answer = await request(`${server.url}/dead-letters?${query}`);
      expect(answer, query).to.deep.include({ status: 400, body: { error } });
    }
  });

  it('answers with summaries, which cut no character of a payload in half', async () => {
    const server = await startTasksServer();
    const [id] = await discardTasks(server, 1, 'bad data', { text: 'ä'.repeat(300) });
    const text = 'a'.repeat(255);
    await server.queue.publish({ id: randomUUID(), action: undefined, body: `${text}😀` });
    await server.settle(await server.take(), discard());
    const { body } = await request(`${server.url}/dead-letters?summary=1`);
    const [foreign, letter] = body.dead_letters;
    expect(foreign).to.include({ action: null, payload: text, payload_bytes: 259 });
    const whole = (await request(`${server.tasksUrl}/${id}`)).body;
    const { history, waited_ms, ran_ms, payload, ...rest } = whole;
    const start = { payload: payload.slice(0, 256), payload_bytes: Buffer.byteLength(payload) };
    expect(letter).to.have.all.keys(...FIELDS, 'action', 'cause', 'payload_bytes');
    expect(letter).to.deep.equal({ ...rest, action: 'sum', cause: 'bad data', ...start });
    expect((await request(`${server.url}/dead-letters?summary=0`)).body.dead_letters[1]).to.deep.equal(whole);
  });

  it('answers with large dead letters and their summaries although they exceed the budget of responses', async () => {
    const responses = new ByteBudget(1_500_000);
    const server = await startTasksServer({ bodyLimit: 500_000, maxBytes: 10_000_000, responses });
    const ids = await discardTasks(server, 4, 'bad data', { text: 'x'.repeat(400_000) });
    for (const query of ['', '?summary=1']) expect(await listed(server, query)).to.deep.equal(ids.toReversed());
  });
});

describe('a dead letter', () => {
  it('is redriven with an empty history, or purged', async () => {
    const server = await startTasksServer();
    const [first, second] = await discardTasks(server, 2);
    const retried = await request(`${server.url}/dead-letters/${first}/retry`, { method: 'POST' });
    expect([retried.status, retried.body]).to.deep.equal([202, { id: first, status: 'queued' }]);
    expect(retried.headers.get('location')).to.equal(`/tasks/${first}`);
    const { body } = await request(`${server.tasksUrl}/${first}`);
    expect(body).to.deep.include({ id: first, status: 'queued', history: [] });
    expect((await server.queued()).map(({ id }) => id)).to.deep.equal([first]);

    const deleted = await request(`${server.url}/dead-letters/${second}`, { method: 'DELETE' });
    expect([deleted.status, deleted.body]).to.deep.equal([204, '']);
    expect((await request(`${server.tasksUrl}/${second}`)).status).to.equal(404);
    expect(await server.queue.counts()).to.include({ accepted: 2, dead: 0, dropped: 1 });
  });

  it('that does not exist is neither redriven nor purged: 404', async () => {
    const server = await startTasksServer();
    const waiting = await server.submitTask();
    const notFound = { status: 404, body: { error: 'dead letter not found' } };
    for (const id of [waiting, 'x', '%00', '__proto__']) {
      const url = `${server.url}/dead-letters/${id}`;
      expect(await request(`${url}/retry`, { method: 'POST' }), id).to.deep.include(notFound);
      expect(await request(url, { method: 'DELETE' }), id).to.deep.include(notFound);
    }
  });

  it('is not redriven into a full queue', async () => {
    const server = await startTasksServer({ maxLength: 1 });
    const [id] = await discardTasks(server, 1);
    await server.submitTask();
    const refused = await request(`${server.url}/dead-letters/${id}/retry`, { method: 'POST' });
    expect(refused).to.deep.include({ status: 500, body: { error: 'failed to queue task' } });
    expect(refused.headers.get('retry-after')).to.equal('1');
    const all = await request(`${server.url}/dead-letters/redrive`, { method: 'POST', body: '{"all":true}' });
    expect(all).to.deep.include({ status: 200, body: { count: 0, remaining: 1 } });
    expect(await listed(server)).to.deep.equal([id]);
  });
});

describe('POST /dead-letters/redrive and /dead-letters/purge', () => {
  const post = (url: string, body: unknown) =>
    request(url, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) });

  it('redrive and purge the dead letters with these ids, with a reason, or all, which /dead-letters/reasons counts', async () => {
    const server = await startTasksServer();
    const url = `${server.url}/dead-letters`;
    const [a, b] = await discardTasks(server, 2);
    await discardTasks(server, 3, 'timeout');
    expect((await request(`${url}/reasons`)).body).to.nested.include({
      ...{ 'causes[0].cause': 'timeout', 'causes[0].count': 3, 'causes[0].permanent': 3 },
      ...{ 'causes[1].cause': 'bad data', 'causes[1].count': 2, total: 5 },
    });
    const { dead_letters } = (await request(`${url}?cause=bad+data&action=sum&summary=1`)).body;
    expect(dead_letters.map(({ id }: { id: string }) => id)).to.have.members([a, b]);
    expect(dead_letters[0]).to.include({ cause: 'bad data' });
    const redriven = await post(`${url}/redrive`, { ids: [a] });
    expect([redriven.status, redriven.body]).to.deep.equal([200, { count: 1, remaining: 0 }]);
    expect((await server.queued()).map(({ id }) => id)).to.deep.equal([a]);
    expect((await post(`${url}/purge`, { reason: 'timeout' })).body).to.deep.equal({ count: 3, remaining: 0 });
    expect(await listed(server)).to.deep.equal([b]);
    expect((await post(`${url}/purge`, { all: true })).body).to.deep.equal({ count: 1, remaining: 0 });
    expect(await listed(server)).to.deep.equal([]);
  });

  it('redrive and purge the dead letters of a cause, an action and a time, as a search counts them', async () => {
    const server = await startTasksServer();
    const url = `${server.url}/dead-letters`;
    const [first] = await discardTasks(server, 1, 'card "4711" declined after 20 ms');
    const [second] = await discardTasks(server, 1, 'card "815" declined after 3 ms');
    const [other] = await discardTasks(server, 1, 'no connection to 10.0.0.1:5432');
    const { causes } = (await request(`${url}/reasons?text=DECLINED`)).body;
    const [{ first_at, last_at, ...cause }] = causes;
    expect(last_at).to.be.at.least(first_at);
    expect([causes.length, cause]).to.deep.equal([
      1,
      {
        ...{ cause: 'card … declined after … ms', action: 'sum', count: 2, permanent: 2 },
        reasons: [
          { reason: 'card "815" declined after 3 ms', count: 1 },
          { reason: 'card "4711" declined after 20 ms', count: 1 },
        ],
      },
    ]);
    const filter = { cause: cause.cause, action: 'sum', since: first_at };
    const query = new URLSearchParams({ ...filter, since: `${first_at}`, limit: '0' });
    const preview = (await request(`${server.tasksUrl}/search?${query}`)).body;
    expect(preview).to.deep.equal({ tasks: [], count: 0, total: 2, total_is_exact: true, next_cursor: null });
    expect((await post(`${url}/redrive`, { ...filter, action: 'x' })).body).to.deep.equal({ count: 0, remaining: 0 });
    expect((await post(`${url}/redrive`, { ...filter, until: 1 })).body).to.deep.equal({ count: 0, remaining: 0 });
    expect((await post(`${url}/redrive`, filter)).body).to.deep.equal({ count: 2, remaining: 0 });
    expect((await server.queued()).map(({ id }) => id)).to.deep.equal([first, second]);
    expect((await post(`${url}/purge`, { id: other?.slice(0, 13) })).body).to.deep.equal({ count: 1, remaining: 0 });
  });

  it('select up to 1000 ids, a filter or all, in exactly one way, and refuse any other body', async () => {
    const server = await startTasksServer();
    await discardTasks(server, 1);
    const tooMany = Array.from({ length: 1001 }, (_, index) => `${index}`);
    const bodies = [{}, [], null, 'x', { ids: [] }, { ids: 'a' }, { ids: [1] }, { ids: ['a', null] }, { ids: tooMany }];
    const others = [
      { reason: 1 },
      { reason: null },
      { all: false },
      { all: 1 },
      { all: true, reason: 'no' },
      { since: '1' },
    ];
    for (const call of ['redrive', 'purge']) {
      for (const body of [...bodies, ...others, { ids: ['a'], all: true }].map((each) => JSON.stringify(each))) {
        const response = await post(`${server.url}/dead-letters/${call}`, body);
        expect([response.status, response.body], body).to.deep.equal([400, { error: 'ids, all or a filter required' }]);
      }
      const ids = Array.from({ length: 1000 }, () => randomUUID());
      const unknown = await post(`${server.url}/dead-letters/${call}`, { ids });
      expect([unknown.status, unknown.body]).to.deep.equal([200, { count: 0, remaining: 0 }]);
      const invalid = await post(`${server.url}/dead-letters/${call}`, '{');
      expect([invalid.status, invalid.body]).to.deep.equal([400, { error: 'invalid JSON' }]);
      const large = await post(`${server.url}/dead-letters/${call}`, { reason: 'x'.repeat(70_000) });
      expect([large.status, large.body]).to.deep.equal([413, { error: 'request body too large' }]);
    }
    expect((await request(`${server.url}/dead-letters`)).body.count).to.equal(1);
  });
});
