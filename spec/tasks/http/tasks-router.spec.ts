import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { startTasksServer } from './tasks-server.ts';

describe('POST /tasks', () => {
  const server = onceForSuite(() => startTasksServer({ bodyLimit: 17_000, maxBytes: 1_000_000, maxLength: 1000 }));

  /** Submits a body that must be accepted. Returns the id and the text of the only message in the queue. */
  async function accept(body: string, init?: RequestInit) {
    const { status, headers, body: answer } = await server().submit(body, init);
    expect([status, answer], body).to.deep.equal([202, { id: answer.id, status: 'queued' }]);
    expect(headers.get('location')).to.equal(`/tasks/${answer.id}`);
    const queued = (await server().queued()).map(({ id, body: text }) => ({ id, text }));
    expect(queued.map(({ id }) => id)).to.deep.equal([answer.id]);
    return queued[0] as (typeof queued)[0];
  }

  it('queues id, action, data and the time in Unix seconds, an empty object if data is missing, __proto__ as any key, and the last of keys that are given twice', async () => {
    const before = Math.floor(systemClock.now() / 1000);
    for (const [body, expected] of Object.entries({
      '{"action":"uppercase","data":{"text":"ü"},"id":"mine","created_at":1,"more":2}':
        '"action":"uppercase","data":{"text":"ü"}',
      '{"action":"sum"}': '"action":"sum","data":{}',
      '{"action":"x","data":{"__proto__":{"admin":true}}}': '"action":"x","data":{"__proto__":{"admin":true}}',
      '{"action":1,"action":"last","data":[],"data":{"a":1,"a":2}}': '"action":"last","data":{"a":2}',
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
    for (const chunk of ['{"action":"\xc3', '\xbc"', '}', '']) {
      socket.write(`${chunk.length.toString(16)}\r\n${chunk}\r\n`, 'latin1');
    }
    expect(parseResponse(await ended).status).to.equal(202);
    expect(JSON.parse((await server().queued())[0]?.body ?? '').action).to.equal('ü');
  });
});

describe('POST /tasks with an Idempotency-Key', () => {
  const server = onceForSuite(() =>
    startTasksServer({ maxLength: 1000, maxBytes: 1_000_000, callbackHosts: ['example.com'] }),
  );
  const submitAs = (key: string, body = '{"action":"sum"}') =>
    server().submit(body, { headers: { 'Idempotency-Key': key } });

  it('gives the same answer to the same submission, however its JSON is spaced, and queues one task for each key', async () => {
    const first = await submitAs('a', '{"action":"sum","data":{"numbers":[1]}}');
    expect(first.status).to.equal(202);
    for (const body of [
      '{"action":"sum","data":{"numbers":[1]}}',
      ' {"data" :{ "numbers":[ 1 ]},\n"action": "sum" }',
    ]) {
      const again = await submitAs('a', body);
      expect([again.status, again.body]).to.deep.equal([202, first.body]);
      expect(again.headers.get('location')).to.equal(first.headers.get('location'));
    }
    const keyed = await submitAs('k'.repeat(255));
    const ids = [first.body.id, keyed.body.id, await server().submitTask(), await server().submitTask()];
    expect((await server().queued()).map(({ id }) => id)).to.deep.equal(ids);
    expect(new Set(ids).size).to.equal(4);
  });

  it('refuses another submission with the same key, also one with other options', async () => {
    const sum = { action: 'sum', data: { numbers: [1] }, priority: 1, delay: 0.001 };
    const submit = (fields: object) => submitAs('c', JSON.stringify({ ...sum, ...fields }));
    const first = await submit({});
    const reversed = JSON.stringify(Object.fromEntries(Object.entries(sum).reverse()));
    expect((await submitAs('c', reversed)).body).to.deep.equal(first.body);
    const options = [{ priority: 2 }, { delay: undefined }, { callback_url: 'https://example.com/' }];
    for (const other of [{ data: { numbers: [2] } }, { action: 'x' }, ...options]) {
      const { status, body } = await submit(other);
      expect([status, body]).to.deep.equal([422, { error: 'this Idempotency-Key belongs to another submission' }]);
    }
    await server().take();
    expect(await server().queued()).to.deep.equal([]);
  });
});
