import { expect } from 'chai';
import fc from 'fast-check';
import type { HttpResponse } from '../../support/program.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { startTasksServer } from './tasks-server.ts';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

function expectError(answer: HttpResponse, status: number, error: string, about?: string): void {
  expect({ status: answer.status, body: answer.body }, about).to.deep.equal({ status, body: { error } });
  expect(answer.headers.get('content-type'), about).to.equal('application/json; charset=utf-8');
}

describe('POST /tasks', () => {
  it('answers 202 with a UUID v4 and the status queued, and nothing else', async () => {
    const { submit } = await startTasksServer();
    const { status, body, headers } = await submit('{"action":"sum","data":{"numbers":[1]}}');
    expect(status).to.equal(202);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(body).to.have.all.keys('id', 'status');
    expect(body.id).to.match(UUID_V4);
    expect(body.status).to.equal('queued');
  });

  it('publishes id, action, data and the time in Unix seconds', async () => {
    const { submit, queued } = await startTasksServer();
    const before = Math.floor(Date.now() / 1000);
    const { body } = await submit('{"action":"uppercase","data":{"text":"ü"},"id":"mine","created_at":1,"more":2}');
    const [message, ...others] = await queued();
    expect(others).to.deep.equal([]);
    expect(message?.id).to.equal(body.id);
    const { created_at, ...rest } = JSON.parse(message?.body ?? '');
    expect(rest).to.deep.equal({ id: body.id, action: 'uppercase', data: { text: 'ü' } });
    expect(created_at)
      .to.satisfy(Number.isSafeInteger)
      .and.to.be.within(before, Date.now() / 1000);
  });

  it('writes no row', async () => {
    const { submit, queue } = await startTasksServer();
    await submit('{"action":"sum"}');
    expect(await queue.store.rows.list({})).to.deep.equal([]);
  });

  it('gives every submission an id of its own, and queues them in order', async () => {
    const { submit, queued } = await startTasksServer();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push((await submit('{"action":"sum"}')).body.id);
    expect(new Set(ids).size).to.equal(5);
    expect((await queued()).map(({ id }) => id)).to.deep.equal(ids);
  });

  it('takes an empty object for data that is missing', async () => {
    const { submit, queued } = await startTasksServer();
    await submit('{"action":"sum"}');
    expect(JSON.parse((await queued())[0]?.body ?? '').data).to.deep.equal({});
  });

  it('takes any action that is a string', async () => {
    const { submit, queued } = await startTasksServer();
    const actions = ['', ' ', 'anything', '__proto__', 'constructor', 'toString', '\u0000', 'ü𝄞', '\ud800'];
    for (const action of actions) expect((await submit(JSON.stringify({ action }))).status, action).to.equal(202);
    expect((await queued()).map(({ body }) => JSON.parse(body).action)).to.deep.equal(actions);
  });

  it('passes any data on as it is', async () => {
    const { submit, queued } = await startTasksServer({ bodyLimit: 1_000_000, maxBytes: 10_000_000 });
    const json = fc.dictionary(fc.string(), fc.jsonValue()).map((data) => JSON.stringify({ action: 'x', data }));
    await fc.assert(
      fc.asyncProperty(json, async (text) => {
        expect((await submit(text)).status).to.equal(202);
        expect(JSON.stringify(JSON.parse((await queued()).at(-1)?.body ?? '').data)).to.equal(
          JSON.stringify(JSON.parse(text).data),
        );
      }),
      { numRuns: 30 },
    );
  });

  it('passes a key __proto__ on as data, and does not take action from one', async () => {
    const { submit, queued } = await startTasksServer();
    expect((await submit('{"action":"x","data":{"__proto__":{"admin":true}}}')).status).to.equal(202);
    expect((await queued())[0]?.body).to.include('"data":{"__proto__":{"admin":true}}');
    expectError(await submit('{"__proto__":{"action":"x"}}'), 400, 'action required');
    expect(({} as Record<string, unknown>).admin).to.equal(undefined);
  });

  it('takes the last of keys that are there twice', async () => {
    const { submit, queued } = await startTasksServer();
    expect((await submit('{"action":1,"action":"last","data":[],"data":{"a":1,"a":2}}')).status).to.equal(202);
    expect(JSON.parse((await queued())[0]?.body ?? '')).to.deep.include({ action: 'last', data: { a: 2 } });
    expectError(await submit('{"action":"first","action":null}'), 400, 'action required');
  });

  it('refuses a body that is no JSON', async () => {
    const { submit, queue } = await startTasksServer();
    const bodies = [
      '',
      ' ',
      '{',
      '{"action":"sum"',
      'action=sum',
      '{"action":"sum"}}',
      "{'action':'sum'}",
      'undefined',
    ];
    bodies.push('{"action":"sum",}', 'NaN', '{"action":"a\nb"}', '\ufeff{"action":"sum"}', '{"action":01}');
    for (const body of bodies) expectError(await submit(body), 400, 'invalid JSON', JSON.stringify(body));
    expect((await queue.counts()).accepted).to.equal(0);
  });

  it('refuses a body that is no UTF-8', async () => {
    const { submit } = await startTasksServer();
    const bytes = (text: string, encoding: BufferEncoding) => new Uint8Array(Buffer.from(text, encoding));
    const bodies = [
      bytes('{"action":"\xff"}', 'latin1'),
      bytes('{"action":"\xc3"}', 'latin1'),
      bytes('{"action":"\xed\xa0\x80"}', 'latin1'),
      bytes('{"action":"x"}', 'utf16le'),
    ];
    for (const body of bodies) expectError(await submit(body), 400, 'invalid JSON');
  });

  it('refuses a body without an action that is a string', async () => {
    const { submit, queue } = await startTasksServer();
    const bodies = ['null', '[]', '"x"', '1', 'true', '{}', '[{"action":"x"}]', '{"Action":"x"}', '{"data":{}}'];
    for (const action of ['null', '1', 'true', '[]', '["sum"]', '{}']) bodies.push(`{"action":${action}}`);
    for (const body of bodies) expectError(await submit(body), 400, 'action required', body);
    expect((await queue.counts()).accepted).to.equal(0);
  });

  it('refuses data that is no object', async () => {
    const { submit, queue } = await startTasksServer();
    for (const data of ['null', '[]', '[{}]', '"x"', '""', '0', '1', 'true', 'false']) {
      expectError(await submit(`{"action":"x","data":${data}}`), 400, 'data must be an object', data);
    }
    expect((await queue.counts()).accepted).to.equal(0);
  });

  it('misses the action before it looks at data', async () => {
    const { submit } = await startTasksServer();
    expectError(await submit('{"data":[]}'), 400, 'action required');
  });

  it('does not care for the content type', async () => {
    const { submit } = await startTasksServer();
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=latin1', 'nonsense'];
    for (const type of types) {
      const { status } = await submit('{"action":"ü"}', { headers: { 'Content-Type': type } });
      expect(status, type).to.equal(202);
    }
  });

  it('takes a body in chunks', async () => {
    const { port, queued } = await startTasksServer();
    const connection = await connectRaw(
      port,
      'POST /tasks HTTP/1.1',
      'Host: x',
      'Connection: close',
      'Transfer-Encoding: chunked',
    );
    // The chunks split a two-byte character.
    for (const chunk of ['{"action":"\xc3', '\xbc"', '}', '']) {
      connection.socket.write(`${chunk.length.toString(16)}\r\n${chunk}\r\n`, 'latin1');
    }
    expect(parseResponse(await connection.ended).status).to.equal(202);
    expect(JSON.parse((await queued())[0]?.body ?? '').action).to.equal('ü');
  });

  it('answers data that is nested deeply with anything but a failure of its own', async () => {
    const { submit, lines } = await startTasksServer({ bodyLimit: 2_000_000, maxBytes: 10_000_000 });
    const depth = 500_000;
    const { status } = await submit(`{"action":"x","data":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`);
    expect(status).to.be.oneOf([202, 400]);
    expect(lines).to.deep.equal([]);
  });
});
