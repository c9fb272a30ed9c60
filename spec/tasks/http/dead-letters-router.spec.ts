import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { ByteBudget } from '../../../main/http/byte-budget.ts';
import { discard, retry } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const FIELDS = ['id', 'status', 'payload', 'reason', 'attempts', 'permanent', 'first_at', 'last_at'] as const;

/** Submits tasks and discards them in order. Returns their ids. */
async function discardTasks(
  { submit, takeAll, settle }: TasksServer,
  count: number,
  reason = 'bad data',
  data = '{}',
): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push((await submit(`{"action":"sum","data":${data}}`)).body.id);
  for (const delivery of await takeAll(count)) await settle(delivery, discard(reason));
  return ids;
}

describe('the dead letters', () => {
  it('are listed, the latest first, as GET /tasks/:id shows each', async () => {
    const server = await startTasksServer();
    expect((await request(`${server.url}/dead-letters`)).body).to.deep.equal({ dead_letters: [], count: 0 });
    const ids = await discardTasks(server, 3);
    const { status, body, headers } = await request(`${server.url}/dead-letters`);
    expect(status).to.equal(200);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(body.count).to.equal(3);
    expect(body.dead_letters.map(({ id }: { id: string }) => id)).to.deep.equal(ids.toReversed());
    for (const letter of body.dead_letters) {
      expect(letter).to.have.all.keys(...FIELDS, 'history');
      expect(letter).to.include({ status: 'failed', reason: 'bad data', attempts: 1, permanent: true });
      expect(letter.history).to.have.length(1);
      expect(letter.history[0].reason).to.equal('bad data');
      expect(Math.floor(letter.history[0].at_ms / 1000)).to.equal(letter.last_at);
      expect((await request(`${server.tasksUrl}/${letter.id}`)).body).to.deep.equal(letter);
    }
  });

  it('are listed up to a hundred', async () => {
    const server = await startTasksServer({ maxLength: 1000 });
    const ids = await discardTasks(server, 103);
    const { body } = await request(`${server.url}/dead-letters`);
    expect(body.count).to.equal(100);
    const listed = body.dead_letters.map(({ id }: { id: string }) => id);
    expect(listed).to.deep.equal(ids.slice(3).reverse());
  });

  it('are redriven, and purged', async () => {
    const server = await startTasksServer();
    const [first, second] = await discardTasks(server, 2);
    const retried = await request(`${server.url}/dead-letters/${first}/retry`, { method: 'POST' });
    expect([retried.status, retried.body]).to.deep.equal([202, { id: first, status: 'queued' }]);
    expect(retried.headers.get('location')).to.equal(`/tasks/${first}`);
    expect((await request(`${server.tasksUrl}/${first}`)).body).to.deep.include({
      id: first,
      status: 'queued',
      history: [],
    });
    expect((await server.queued()).map(({ id }) => id)).to.deep.equal([first]);

    const deleted = await request(`${server.url}/dead-letters/${second}`, { method: 'DELETE' });
    expect([deleted.status, deleted.body]).to.deep.equal([204, '']);
    expect((await request(`${server.tasksUrl}/${second}`)).status).to.equal(404);
    expect(await server.queue.counts()).to.include({ accepted: 2, dead: 0, dropped: 1 });
  });

  it('that are not there are not found', async () => {
    const server = await startTasksServer();
    const waiting = (await server.submit('{"action":"sum"}')).body.id;
    const notFound = [404, { error: 'dead letter not found' }];
    for (const id of [waiting, 'x', '%00', '__proto__']) {
      const retried = await request(`${server.url}/dead-letters/${id}/retry`, { method: 'POST' });
      expect([retried.status, retried.body], id).to.deep.equal(notFound);
      const deleted = await request(`${server.url}/dead-letters/${id}`, { method: 'DELETE' });
      expect([deleted.status, deleted.body], id).to.deep.equal(notFound);
    }
  });

  it('are not retried into a full queue', async () => {
    const server = await startTasksServer({ maxLength: 1 });
    const [id] = await discardTasks(server, 1);
    await server.submit('{"action":"sum"}');
    const { status, body, headers } = await request(`${server.url}/dead-letters/${id}/retry`, { method: 'POST' });
    expect([status, body]).to.deep.equal([500, { error: 'failed to queue task' }]);
    expect(headers.get('retry-after')).to.equal('1');
    expect((await request(`${server.url}/dead-letters`)).body.count).to.equal(1);
  });

  it('take the methods that make sense, and no others', async () => {
    const { url } = await startTasksServer();
    const supported = {
      '/dead-letters': 'GET, HEAD',
      '/dead-letters/reasons': 'GET, HEAD',
      '/dead-letters/redrive': 'POST',
      '/dead-letters/purge': 'POST',
      '/dead-letters/1': 'DELETE',
      '/dead-letters/1/retry': 'POST',
    };
    for (const [path, methods] of Object.entries(supported)) {
      const { status, headers } = await request(url + path, { method: 'PUT' });
      expect([status, headers.get('allow')], path).to.deep.equal([405, `${methods}, OPTIONS`]);
    }
  });
});

const listed = async (url: string) => {
  const { status, body } = await request(url);
  expect(status, url).to.equal(200);
  expect(body.count).to.equal(body.dead_letters.length);
  return body.dead_letters.map(({ id }: { id: string }) => id);
};

describe('GET /dead-letters with parameters', () => {
  it('pages through all, and through those with a reason', async () => {
    const server = await startTasksServer({ maxLength: 1000 });
    const [old] = await discardTasks(server, 1, 'ä & b');
    const ids = (await discardTasks(server, 103)).reverse();
    const url = `${server.url}/dead-letters`;
    const first = await listed(url);
    expect(first).to.deep.equal(ids.slice(0, 100));
    expect(await listed(`${url}?before=${first.at(-1)}`)).to.deep.equal([...ids.slice(100), old]);
    expect(await listed(`${url}?reason=${encodeURIComponent('ä & b')}`)).to.deep.equal([old]);
    expect(await listed(`${url}?reason=bad%20data&before=${ids[101]}`)).to.deep.equal([ids[102]]);
    expect(await listed(`${url}?reason=x`)).to.deep.equal([]);
  });

  it('returns summaries', async () => {
    const server = await startTasksServer();
    const [id] = await discardTasks(server, 1, 'bad data', JSON.stringify({ text: 'ä'.repeat(300) }));
    const { body } = await request(`${server.url}/dead-letters?summary=1`);
    const [letter] = body.dead_letters;
    const whole = (await request(`${server.tasksUrl}/${id}`)).body;
    expect(letter).to.have.all.keys(...FIELDS, 'action', 'payload_bytes');
    const { history, payload, ...rest } = whole;
    expect(letter).to.deep.equal({
      ...rest,
      action: 'sum',
      payload: payload.slice(0, 256),
      payload_bytes: Buffer.byteLength(payload),
    });
    expect((await request(`${server.url}/dead-letters?summary=0`)).body.dead_letters).to.deep.equal([whole]);
  });

  it('returns summaries of payloads of other programs, without half a character', async () => {
    const server = await startTasksServer();
    const text = 'a'.repeat(255);
    await server.queue.publish({ id: randomUUID(), action: undefined, body: `${text}😀` });
    await server.settle(await server.take(), discard());
    const { body } = await request(`${server.url}/dead-letters?summary=1`);
    expect(body.dead_letters[0]).to.include({ action: null, payload: text, payload_bytes: 259 });
  });

  it('returns large dead letters, and their summaries within a small budget', async () => {
    const responses = new ByteBudget(1_500_000);
    const server = await startTasksServer({ bodyLimit: 500_000, maxBytes: 10_000_000, responses });
    const ids = await discardTasks(server, 4, 'bad data', JSON.stringify({ text: 'x'.repeat(400_000) }));
    for (const query of ['', '?summary=1']) {
      expect(await listed(`${server.url}/dead-letters${query}`), query).to.deep.equal(ids.toReversed());
    }
  });

  it('refuses an unknown dead letter, and parameters given twice', async () => {
    const { url } = await startTasksServer();
    for (const [query, error] of [
      ['before=x', 'before is unknown'],
      ['before=', 'before is unknown'],
      ['before=a&before=b', 'before must be given once'],
      ['reason=a&reason=b', 'reason must be given once'],
      ['summary=1&summary=1', 'summary must be given once'],
    ]) {
      const { status, body } = await request(`${url}/dead-letters?${query}`);
      expect([status, body], query).to.deep.equal([400, { error }]);
    }
  });
});

describe('the history of a task', () => {
  it('is shown while the task waits, runs and is retried', async () => {
    const { submit, queue, take, settle, tasksUrl } = await startTasksServer();
    const { id } = (await submit('{"action":"sum"}')).body;
    const shown = async () => {
      const { status, history } = (await request(`${tasksUrl}/${id}`)).body;
      return [status, history.map(({ reason }: { reason: string }) => reason)];
    };
    expect(await shown()).to.deep.equal(['queued', []]);
    await settle(await take(), retry(Date.now()));
    const again = await take();
    queue.reportStart(again);
    expect(await shown()).to.deep.equal(['running', ['it failed']]);
    await settle(again, retry(Date.now() + 60_000, 'no'));
    expect(await shown()).to.deep.equal(['retrying', ['it failed', 'no']]);
  });
});

describe('the bulk calls for dead letters', () => {
  const post = (url: string, body: unknown) =>
    request(url, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) });

  it('count the reasons, redrive and purge', async () => {
    const server = await startTasksServer();
    const url = `${server.url}/dead-letters`;
    const [a, b] = await discardTasks(server, 2);
    await discardTasks(server, 3, 'timeout');
    expect((await request(`${url}/reasons`)).body).to.deep.equal({
      reasons: [
        { reason: 'timeout', count: 3, permanent: true },
        { reason: 'bad data', count: 2, permanent: true },
      ],
      total: 5,
    });
    const redriven = await post(`${url}/redrive`, { ids: [a] });
    expect([redriven.status, redriven.body]).to.deep.equal([200, { count: 1, remaining: 0 }]);
    expect((await server.queued()).map(({ id }) => id)).to.deep.equal([a]);
    expect((await post(`${url}/purge`, { reason: 'timeout' })).body).to.deep.equal({ count: 3, remaining: 0 });
    expect(await listed(url)).to.deep.equal([b]);
    expect((await post(`${url}/purge`, { all: true })).body).to.deep.equal({ count: 1, remaining: 0 });
    expect(await listed(url)).to.deep.equal([]);
  });

  it('keep the dead letters for which the queue has no room', async () => {
    const server = await startTasksServer({ maxLength: 3 });
    await discardTasks(server, 3);
    await server.submit('{"action":"sum"}');
    const { status, body } = await post(`${server.url}/dead-letters/redrive`, { all: true });
    expect([status, body]).to.deep.equal([200, { count: 2, remaining: 1 }]);
    expect((await request(`${server.url}/dead-letters`)).body.count).to.equal(1);
  });

  it('refuse a body that does not select dead letters in exactly one way', async () => {
    const server = await startTasksServer();
    await discardTasks(server, 1);
    const tooMany = Array.from({ length: 1001 }, (_, index) => `${index}`);
    const bodies = [{}, [], null, 'x', { ids: [] }, { ids: 'a' }, { ids: [1] }, { ids: ['a', null] }, { ids: tooMany }];
    const others = [{ reason: 1 }, { reason: null }, { all: false }, { all: 1 }, { all: true, reason: 'no' }];
    for (const call of ['redrive', 'purge']) {
      for (const body of [...bodies, ...others, { ids: ['a'], all: true }].map((each) => JSON.stringify(each))) {
        const response = await post(`${server.url}/dead-letters/${call}`, body);
        expect([response.status, response.body], body).to.deep.equal([400, { error: 'ids, reason or all required' }]);
      }
      const invalid = await post(`${server.url}/dead-letters/${call}`, '{');
      expect([invalid.status, invalid.body]).to.deep.equal([400, { error: 'invalid JSON' }]);
      const large = await post(`${server.url}/dead-letters/${call}`, { reason: 'x'.repeat(70_000) });
      expect([large.status, large.body]).to.deep.equal([413, { error: 'request body too large' }]);
    }
    expect((await request(`${server.url}/dead-letters`)).body.count).to.equal(1);
  });

  it('take a thousand ids of tasks', async () => {
    const server = await startTasksServer();
    const ids = Array.from({ length: 1000 }, () => randomUUID());
    const { status, body } = await post(`${server.url}/dead-letters/redrive`, { ids });
    expect([status, body]).to.deep.equal([200, { count: 0, remaining: 0 }]);
  });
});
