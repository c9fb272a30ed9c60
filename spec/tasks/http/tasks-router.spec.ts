import { mock } from 'node:test';
import { expect } from 'chai';
import { DatabaseUnavailable } from '../../../db/task-store.ts';
import { ByteBudget } from '../../../main/http/request-body.ts';
import { TURN_BYTES } from '../../../main/http/turn-limit.ts';
import { SMALL_BODY_BYTES } from '../../../main/tasks/http/prepare-submission.ts';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard } from '../../store/settlements.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { connectRaw, head, parseResponse } from '../../support/raw-connection.ts';
import { watchThreads } from '../../support/threads.ts';
import { countTurns, until } from '../../support/until.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

function submissionOf(bytes: number): string {
  return `{"action":"${'x'.repeat(bytes - '{"action":""}'.length)}"}`;
}

describe('POST /tasks', () => {
  const server = onceForSuite(() => startTasksServer());

  /** Submits a body that must be accepted. Returns the id and the text of the only message in the queue. */
  async function accept(body: string, init?: RequestInit) {
    const { status, headers, body: answer } = await server().submit(body, init);
    expect([status, answer], body).to.deep.equal([202, { id: answer.id, status: 'queued' }]);
    expect(headers.get('location')).to.equal(`/tasks/${answer.id}`);
    const queued = (await server().queued()).map(({ id, body: text }) => ({ id, text }));
    expect(queued.map(({ id }) => id)).to.deep.equal([answer.id]);
    return queued[0] as (typeof queued)[0];
  }

  it('queues id, action, data and the time in Unix seconds, an empty object if data is missing, __proto__ as any key, the last of keys that are given twice, and 512 levels', async () => {
    const before = Math.floor(systemClock.now() / 1000);
    const deepest = `{"a":${'['.repeat(510)}${']'.repeat(510)}}`;
    const brackets = JSON.stringify(`"\\${'[{'.repeat(5000)}\\"`);
    for (const [body, expected] of Object.entries({
      '{"action":"uppercase","data":{"text":"ü"},"id":"mine","created_at":1,"more":2}':
        '"action":"uppercase","data":{"text":"ü"}',
      '{"action":"sum"}': '"action":"sum","data":{}',
      '{"action":"x","data":{"__proto__":{"admin":true}}}': '"action":"x","data":{"__proto__":{"admin":true}}',
      '{"action":1,"action":"last","data":[],"data":{"a":1,"a":2}}': '"action":"last","data":{"a":2}',
      [`{"action":"x","data":${deepest}}`]: `"action":"x","data":${deepest}`,
      [`{"action":${brackets}}`]: `"action":${brackets},"data":{}`,
    })) {
      const { id, text } = await accept(body);
      const [, created_at] = /^.*"created_at":(\d+)\}$/.exec(text) ?? [];
      expect(text).to.equal(`{"id":"${id}",${expected},"created_at":${created_at}}`);
      expect(Number(created_at)).to.be.within(before, systemClock.now() / 1000);
    }
    expect(({} as Record<string, unknown>).admin).to.equal(undefined);
  });

  it('ignores the content type', async () => {
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=latin1', 'nonsense'];
    for (const type of types) {
      const { text } = await accept('{"action":"ü"}', { headers: { 'Content-Type': type } });
      expect(JSON.parse(text).action, type).to.equal('ü');
    }
  });

  it('accepts a body in chunks, which may split a character', async () => {
    const lines = ['POST /tasks HTTP/1.1', 'Host: x', 'Connection: close', 'Transfer-Encoding: chunked'];
    const { socket, ended } = await connectRaw(server().port, ...lines);
    for (const chunk of ['{"action":"\xc3', '\xbc"', '}', ''])
      socket.write(`${chunk.length.toString(16)}\r\n${chunk}\r\n`, 'latin1');
    expect(parseResponse(await ended).status).to.equal(202);
    expect(JSON.parse((await server().queued())[0]?.body ?? '').action).to.equal('ü');
  });
});

describe('POST /tasks/batch', () => {
  const submit = ({ ask }: TasksServer, tasks: object) => ask('POST /tasks/batch', { tasks });

  it('queues all tasks in their order, and answers with their ids', async () => {
    const server = await startTasksServer();
    const [status, { tasks }] = await submit(server, [
      { action: 'sum', data: { numbers: [1] } },
      { action: 'later', delay: 60 },
      { action: 'first', priority: 1 },
    ]);
    const [sum, later, first] = tasks.map(({ id }: { id: string }) => id);
    expect([status, tasks]).to.deep.equal([202, [sum, later, first].map((id) => ({ id, status: 'queued' }))]);
    const queued = await server.queued();
    expect(queued.map(({ id }) => id)).to.deep.equal([first, sum]);
    expect(JSON.parse(queued[1]?.body ?? '')).to.deep.include({ id: sum, action: 'sum', data: { numbers: [1] } });
    expect(await server.find(later)).to.include({ status: 'scheduled' });
  });

  it('refuses a batch with wrong submissions, names all of them, and queues nothing', async () => {
    const schema = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } };
    const server = await startTasksServer({ actions: { own: { schema } }, rejectUnknown: true });
    const right = { action: 'sum' };
    const wrong = [
      ...[{}, 1, null, { action: 'sum', data: 1 }, { action: 'sum', delay: -1 }, { action: 'owns' }],
      ...[{ action: 'own' }, { action: 'sum', idempotency_key: 'a b' }],
    ];
    const errors = [
      ...[1, 2, 3].map((index) => ({ index, error: 'action required' })),
      { index: 4, error: 'data must be an object' },
      { index: 5, error: 'delay must be seconds from 0 to 31622400' },
      { index: 6, error: 'unknown action', nearest: ['own'] },
      { index: 7, error: 'invalid data', path: '/n', detail: 'must be present' },
      { index: 8, error: 'Idempotency-Key must have 1 to 255 visible characters' },
    ];
    expect(await submit(server, [right, ...wrong, right])).to.deep.equal([400, { error: 'invalid batch', errors }]);
    expect(await server.queued()).to.deep.equal([]);
  });

  it('accepts a thousand tasks, which the submission thread parses, and gives 64 in a row ids that begin alike', async () => {
    const server = await startTasksServer();
    const { threads } = watchThreads();
    const thousand = Array.from({ length: 1000 }, (_, index) => ({ action: `${index}`, idempotency_key: `${index}` }));
    const [status, { tasks }] = await submit(server, thousand);
    expect([status, tasks.length, threads.length]).to.deep.equal([202, 1000, 1]);
    // An index keeps such ids together.
    const starts: string[] = tasks.map(({ id }: { id: string }) => id.slice(0, 4));
    expect(starts.filter((start, index) => start !== starts[index - 1]).length).to.be.within(9, 17);
    expect((await server.ask('GET /queue'))[1]).to.include({ accepted: 1000, waiting: 1000 });
  });
});

describe('a submission with an idempotency key', () => {
  const server = onceForSuite(() => startTasksServer({ callbackHosts: ['example.com'] }));
  const sum = { action: 'sum', data: { numbers: [1] }, priority: 1, delay: 0.001 };
  const submitAs = (key: string, body: string) => server().submit(body, { headers: { 'Idempotency-Key': key } });
  const submitInBatch = (...tasks: object[]) => server().ask('POST /tasks/batch', { tasks });

  it('is given the same answer again, however its JSON and its numbers are written, also in a batch, and each key queues one task', async () => {
    const first = await submitAs('a', JSON.stringify(sum));
    expect(first.status).to.equal(202);
    const spaced = ' {"priority": 1, "delay" :0.001,\n"data":{ "numbers":[ 1.00000000000000001 ]}, "action": "sum" }';
    for (const body of [JSON.stringify(sum), spaced]) {
      const again = await submitAs('a', body);
      expect([again.status, again.body]).to.deep.equal([202, first.body]);
      expect(again.headers.get('location')).to.equal(first.headers.get('location'));
    }
    const [, batch] = await submitInBatch({ action: 'x', idempotency_key: 'b' }, { ...sum, idempotency_key: 'a' });
    expect(batch.tasks[1]).to.deep.equal(first.body);
    expect((await submitAs('b', '{"action":"x"}')).body).to.deep.equal(batch.tasks[0]);
    const keyed = await submitAs('k'.repeat(255), '{"action":"x"}');
    const others = [batch.tasks[0].id, keyed.body.id, await server().submitTask(), await server().submitTask()];
    expect((await server().takeAll(5)).map(({ id }) => id)).to.have.members([first.body.id, ...others]);
    expect(await server().queued()).to.deep.equal([]);
  });

  it('is refused if the key belongs to another one, also one with other options, and nothing of its batch is queued', async () => {
    await submitAs('c', JSON.stringify(sum));
    const error = 'this Idempotency-Key belongs to another submission';
    const options = [{ priority: 2 }, { delay: undefined }, { callback_url: 'https://example.com/' }];
    for (const fields of [{ data: { numbers: [2] } }, { action: 'x' }, ...options]) {
      const other = { ...sum, ...fields };
      const { status, body } = await submitAs('c', JSON.stringify(other));
      expect([status, body]).to.deep.equal([422, { error }]);
      const batch = await submitInBatch({ action: 'x' }, { ...other, idempotency_key: 'c' });
      expect(batch).to.deep.equal([400, { error: 'invalid batch', errors: [{ index: 1, error }] }]);
    }
    await server().take();
    expect(await server().queued()).to.deep.equal([]);
  });
});

describe('a callback_url', () => {
  const URL = 'https://example.com/hook';
  const DEFAULT = 'https://example.com/default';
  const slow = { callback: DEFAULT, schema: { type: 'object', properties: { a: { pattern: 'b' } } } };
  const start = () =>
    startTasksServer({ callbackHosts: ['example.com'], actions: { own: { callback: DEFAULT }, slow } });

  it('is stored with its task and shown until the task is completed, or refused, also in a large body, which the submission thread parses', async () => {
    const { ask, submitTask, take, settle, find } = await start();
    const evil = { action: 'sum', callback_url: 'http://evil.example/', data: { text: 'x'.repeat(20_000) } };
    expect((await ask('POST /tasks', evil))[1]).to.include({ error: 'invalid callback_url', path: '/callback_url' });
    const id = await submitTask({ callback_url: `${URL}#part` });
    expect(await find(id)).to.include({ status: 'queued', callback_url: URL });
    await settle(await take(), discard());
    expect(await find(id)).to.include({ status: 'failed', callback_url: URL });
    expect((await take()).callbackOf).to.equal(id);
  });

  it('is taken from the action if the submission has none', async () => {
    const { submitTask, ask, queued, queue } = await start();
    for (const fields of [{ action: 'own' }, { action: 'own', callback_url: URL }, { action: 'slow' }])
      await submitTask(fields);
    await ask('POST /tasks/batch', { tasks: [{ action: 'own' }, { action: 'sum' }] });
    for (const callback_url of [URL, undefined]) {
      const [, put] = await ask('PUT /schedules/nightly', { cron: '0 3 * * *', action: 'own', callback_url });
      expect(put.callback_url).to.equal(callback_url);
      await ask('POST /schedules/nightly/run');
    }
    const read = await queue.read((await queued()).map(({ id }) => id));
    const urls = [DEFAULT, URL, DEFAULT, DEFAULT, undefined, URL, DEFAULT];
    expect(read.map(({ callbackUrl }) => callbackUrl)).to.deep.equal(urls);
  });
});

describe('the body limit of POST /tasks', () => {
  const server = onceForSuite(() => startTasksServer({ bodyLimit: 200 }));
  const refused = { status: 413, body: '{"error":"request body too large"}\n' };
  const start = (...lines: string[]) => connectRaw(server().port, 'POST /tasks HTTP/1.1', 'Host: x', ...lines);

  it('counts bytes, and admits a body of exactly the limit', async () => {
    const { submit, queued } = server();
    expect((await submit(submissionOf(200))).status).to.equal(202);
    expect(await queued()).to.have.length(1);
    for (const body of [submissionOf(201), 'x'.repeat(201), JSON.stringify({ action: 'ü'.repeat(100) })])
      expect(await submit(body)).to.deep.include({ status: 413, body: { error: 'request body too large' } });
    expect(await queued()).to.deep.equal([]);
  });

  it('is reported to a client that reads only after sending 5 MB', async () => {
    const size = 5 * 1024 * 1024;
    for (const persistence of ['keep-alive', 'close']) {
      const { socket, until: untilAnswered } = await start(`Connection: ${persistence}`, `Content-Length: ${size}`);
      socket.pause();
      await new Promise((resolve) => socket.write(Buffer.alloc(size, 'x'), resolve));
      socket.resume();
      expect(parseResponse(await untilAnswered(/\}\n$/)), persistence).to.include(refused);
    }
  });

  it('ends a chunked body before it has arrived completely, and leaves a connection usable after a whole body', async () => {
    const chunked = await start('Transfer-Encoding: chunked');
    chunked.socket.write(`c9\r\n${'x'.repeat(201)}\r\n`);
    expect(parseResponse(await chunked.until(/\}\n$/))).to.include(refused);
    const { socket, until: untilAnswered, ended } = await start('Content-Length: 201');
    socket.write(submissionOf(201));
    await untilAnswered(/too large"\}\n$/);
    socket.write('POST /tasks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 14\r\n\r\n{"action":"x"}');
    expect(await ended).to.match(/HTTP\/1\.1 202 Accepted[\s\S]*"status":"queued"\}\n$/);
    expect(await server().queued()).to.have.length(1);
  });
});

describe('a request while the queue cannot take a task', () => {
  const failed = { status: 500, body: { error: 'failed to queue task' } };

  it('answers 500 with Retry-After while it is full of tasks or bytes, logs nothing, and accepts tasks afterwards', async () => {
    const server = await startTasksServer({ maxLength: 1, maxBytes: 150 });
    const { url, ask, submitTask, take, settle, complete, lines } = server;
    const expectRefusal = async (line: string, body: string | null = null) => {
      const [method = '', path = ''] = line.split(' ');
      const refused = await request(url + path, { method, body });
      expect(refused, line).to.deep.include(failed);
      expect(refused.headers.get('retry-after'), line).to.equal('1');
    };
    const dead = await submitTask();
    await settle(await take(), discard());
    await ask('PUT /schedules/s', { cron: '0 3 * * *', action: 'x' });
    await expectRefusal('POST /tasks', submissionOf(200));
    const waiting = await submitTask();
    await expectRefusal('POST /tasks', '{"action":"x"}');
    await expectRefusal('POST /tasks/batch', '{"tasks":[{"action":"x"}]}');
    await expectRefusal(`POST /dead-letters/${dead}/retry`);
    await expectRefusal('POST /schedules/s/run');
    expect(await ask('POST /dead-letters/redrive', { all: true })).to.deep.equal([200, { count: 0, remaining: 1 }]);
    expect((await ask(`DELETE /dead-letters/${waiting}`))[0]).to.equal(404);
    await complete(await take());
    await submitTask();
    expect(lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });

  for (const [database, isShared] of Object.entries({ 'its file': false, PostgreSQL: true }))
    it(`answers 500 ${isShared ? 'with' : 'without'} Retry-After while ${database} is unavailable, and logs why`, async () => {
      const { ask, submit, queue, store, lines } = await startTasksServer();
      const unavailable = () => Promise.reject(new DatabaseUnavailable('PostgreSQL is closed'));
      if (isShared) Object.assign(queue, { publish: unavailable, redrive: unavailable });
      else await store.close();
      Object.defineProperty(store, 'isShared', { value: isShared });
      const refused = await submit('{"action":"x"}');
      expect(refused).to.deep.include(failed);
      expect(refused.headers.get('retry-after')).to.equal(isShared ? '1' : null);
      expect(lines).to.have.length(1);
      expect(lines[0]).to.include({ level: 50, msg: 'failed to queue task', method: 'POST', path: '/tasks' });
      expect(JSON.stringify(lines[0])).to.include('is closed');
      for (const path of ['/dead-letters/x/retry', '/dead-letters/redrive'])
        expect(await ask(`POST ${path}`, { all: true })).to.deep.equal([failed.status, failed.body]);
    });
});

/** Counts the bytes of the calls of a method by event-loop turn. */
function countByTurn<Target extends object, Name extends keyof Target>(
  target: Target,
  name: Name,
  // biome-ignore lint/suspicious/noExplicitAny: the arguments are those of the method.
  bytesOf: (...args: any[]) => number,
): { max(): number; sum(): number } {
  const turn = countTurns();
  const turns = new Map([[0, 0]]);
  const original = target[name] as (...args: unknown[]) => unknown;
  const counted = (...args: unknown[]) => {
    turns.set(turn(), (turns.get(turn()) ?? 0) + bytesOf(...args));
    return original.apply(target, args);
  };
  mock.method(target, name as never, counted as never);
  return { max: () => Math.max(...turns.values()), sum: () => [...turns.values()].reduce((sum, bytes) => sum + bytes) };
}

describe('a turn of the event loop', () => {
  for (const [size, clientCount, parsedBytes, what] of [
    [SMALL_BODY_BYTES, 30, 30 * SMALL_BODY_BYTES, 'a bounded number of bytes, however many bodies are completed then'],
    [SMALL_BODY_BYTES + 1, 10, 0, 'no large body, because a thread does'],
  ] as const) {
    it(`parses ${what}`, async () => {
      const bodyBudget = new ByteBudget(10_000_000);
      const { port } = await startTasksServer({ bodyBudget });
      const lines = ['POST /tasks HTTP/1.1', 'Host: x', 'Connection: close', `Content-Length: ${size}`];
      const clients = await Promise.all(Array.from({ length: clientCount }, () => connectRaw(port, ...lines)));
      for (const { socket } of clients) socket.write(submissionOf(size).slice(0, -1));
      await until(() => bodyBudget.used >= clientCount * (size - 1));
      const parsed = countByTurn(JSON, 'parse', ({ length }: string) => (length >= size ? length : 0));
      for (const { socket } of clients) socket.write('}');
      for (const { ended } of clients) expect(parseResponse(await ended).status).to.equal(202);
      expect([bodyBudget.used, parsed.sum()]).to.deep.equal([0, parsedBytes]);
      expect(parsed.max()).to.be.at.most(TURN_BYTES / 4);
    });
  }

  it('reads a bounded number of bytes for lists of rows and of waiting tasks, however many there are', async () => {
    const { queue, storeRow, url } = await startTasksServer({ realRows: false });
    const payload = JSON.stringify('x'.repeat(200_000));
    const row = { payload, status: 'completed', result: '{"output":"x"}', created_at: 1, processed_at: 1 };
    for (const id of 'abcdef') {
      storeRow({ id, ...row });
      await queue.publish({ id: `waiting ${id}`, action: 'x', body: payload });
    }
    const rows = countByTurn(queue.store.reads.rows, 'read', (ids: string[]) => ids.length * payload.length);
    const waiting = countByTurn(queue, 'read', (ids: string[]) => ids.length * payload.length);
    for (const [path, read] of Object.entries({ '/tasks': rows, '/queue/tasks?state=queued': waiting })) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => request(url + path)));
      expect(answers.map(({ body }) => body.count)).to.deep.equal(Array(10).fill(6));
      expect(read.sum(), path).to.equal(60 * payload.length);
      expect(read.max(), path).to.be.at.most(TURN_BYTES + payload.length);
    }
  });

  it('reads a few rows of tasks, however many are asked for', async () => {
    const { queue, storeRow, port, sockets } = await startTasksServer({ realRows: false });
    storeRow({ id: 'a', payload: '{}', status: 'completed', result: '{}', created_at: 1, processed_at: 1 });
    const read = countByTurn(queue, 'find', () => 1);
    const clients = await Promise.all(Array.from({ length: 40 }, () => connectRaw(port)));
    await until(() => sockets.size === 40);
    for (const { socket } of clients) socket.write(head('GET /tasks/a HTTP/1.1', 'Host: x', 'Connection: close'));
    for (const { ended } of clients) expect(parseResponse(await ended).status).to.equal(200);
    expect(read.sum()).to.equal(40);
    expect(read.max()).to.be.at.most(8);
  });
});
