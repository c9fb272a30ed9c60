import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { listIn } from '../../store/store-calls.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { startTasksServer } from './tasks-server.ts';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('POST /tasks', () => {
  const server = onceForSuite(() => startTasksServer({ bodyLimit: 17_000, maxBytes: 1_000_000, maxLength: 1000 }));

  /** Submits a body that must be accepted. Returns the answer and the text of the only message in the queue. */
  async function accept(body: string, init?: RequestInit) {
    const answer = await server().submit(body, init);
    expect(answer.status, body).to.equal(202);
    const [message, ...others] = await server().queued();
    expect(others).to.deep.equal([]);
    expect(message?.id).to.equal(answer.body.id);
    return { ...answer, text: message?.body ?? '' };
  }

  it('answers 202 with a UUID v4 and the status queued, and queues id, action, data and the time in Unix seconds', async () => {
    const before = Math.floor(systemClock.now() / 1000);
    const submission = '{"action":"uppercase","data":{"text":"ü"},"id":"mine","created_at":1,"more":2}';
    const { body, headers, text } = await accept(submission);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(headers.get('location')).to.equal(`/tasks/${body.id}`);
    expect(body).to.deep.equal({ id: body.id, status: 'queued' });
    expect(body.id).to.match(UUID_V4);
    const { created_at, ...rest } = JSON.parse(text);
    expect(rest).to.deep.equal({ id: body.id, action: 'uppercase', data: { text: 'ü' } });
    expect(created_at)
      .to.satisfy(Number.isSafeInteger)
      .and.to.be.within(before, systemClock.now() / 1000);
    expect(await listIn(server().queue.store.rows)).to.deep.equal([]);
  });

  it('queues an empty object if data is missing, __proto__ as any key, and the last of keys that are given twice', async () => {
    for (const [body, expected] of Object.entries({
      '{"action":"sum"}': '"action":"sum","data":{}',
      '{"action":"x","data":{"__proto__":{"admin":true}}}': '"action":"x","data":{"__proto__":{"admin":true}}',
      '{"action":1,"action":"last","data":[],"data":{"a":1,"a":2}}': '"action":"last","data":{"a":2}',
    }))
      expect((await accept(body)).text).to.include(expected);
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
    const others = [
      await submitAs('k'.repeat(255)),
      await server().submit('{"action":"sum"}'),
      await server().submit('{"action":"sum"}'),
    ];
    const ids = [first, ...others].map(({ body }) => body.id);
    expect((await server().queued()).map(({ id }) => id)).to.deep.equal(ids);
    expect(new Set(ids).size).to.equal(4);
  });

  it('refuses another submission with the same key, also one with other options', async () => {
    const sum = { action: 'sum', data: { numbers: [1] }, priority: 1, delay: 0.001 };
    const submit = (fields: object) => submitAs('c', JSON.stringify({ ...sum, ...fields }));
    const first = await submit({});
    expect((await submitAs('c', JSON.stringify(Object.fromEntries(Object.entries(sum).reverse())))).body).to.deep.equal(
      first.body,
    );
    const options = [{ priority: 2 }, { delay: undefined }, { callback_url: 'https://example.com/' }];
    for (const other of [{ data: { numbers: [2] } }, { action: 'x' }, ...options]) {
      const { status, body } = await submit(other);
      expect([status, body]).to.deep.equal([422, { error: 'this Idempotency-Key belongs to another submission' }]);
    }
    await server().take();
    expect(await server().queued()).to.deep.equal([]);
  });
});
