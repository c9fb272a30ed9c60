import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { noteWire, serviceAt } from './contract-watch.ts';
import { parseResponses } from './http-responses.ts';

/** Bytes that a client sends on one connection, one write per piece. */
export type Sending = Buffer[];

/** Any character except surrogates, as the `unit` of a string. fast-check's own unit `binary` takes a second. */
export const anyCharacter = fc
  .oneof(fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code));

const listed = (values: string) => fc.constantFrom(...values.trim().split(/\s+\|\s+/));

const weighted = <T>(...choices: [weight: number, arbitrary: fc.Arbitrary<T>][]) =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })));

const long = (start: string) => fc.integer({ min: 1, max: 20_000 }).map((length) => start + 'x'.repeat(length));

const method = weighted(
  [6, listed('GET | POST')],
  [2, listed('PUT | DELETE | PATCH | OPTIONS | TRACE | PROPFIND | QUERY | CONNECT | get | G ET')],
  [1, fc.string({ maxLength: 5 })],
);

const unusualPaths = listed(`
  /tasks/ | //tasks | /tasks/% | /tasks/%00 | /tasks/__proto__ | /tasks?status=a&status=b | /tasks?status=%ff
  | /tasks?status=completed | /tasks?__proto__[x]=1 | /tasks/00000000-0000-4000-8000-000000000000 | /dead-letters/x
  | /dead-letters/x/retry | /ws/ | /ws/ticker/ | /auth/token?x=% | /../../package.json | /%2e%2e/%2e%2e/package.json
  | /..%2f..%2fpackage.json | /%00 | /%c0%af | * | http://other/tasks | tasks | /\\..\\ | /index.html/ | /.hidden
  | ? | #`);

const path = weighted(
  [4, listed('/tasks | /auth/token | /ws/ticker | / | /queue | /dead-letters')],
  [3, unusualPaths],
  [1, fc.webPath()],
  [1, fc.string({ unit: anyCharacter, maxLength: 30 }).map((value) => `/${value}`)],
  [1, long('/tasks?status=')],
);

const version = weighted(
  [9, fc.constant('HTTP/1.1')],
  [1, fc.constantFrom('HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/1.1 ', 'HTTP/9.9', 'http/1.1', 'HTTP', '')],
);

const validHeaders = listed(`
  Host: localhost | Host: y | Connection: close | Connection: keep-alive | Connection: Upgrade
  | Upgrade: websocket | Upgrade: h2c | Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA== | Sec-WebSocket-Version: 13
  | Sec-WebSocket-Version: 99 | Expect: 100-continue | Sec-WebSocket-Protocol: ticker.v1, bearer.x
  | Sec-WebSocket-Extensions: permessage-deflate; x=" | Expect: a miracle | Authorization: Bearer v3.local.x
  | Authorization: Bearer | Authorization: Basic eA== | Origin: null | Accept-Encoding: gzip
  | Content-Encoding: gzip | Content-Type: text/plain | If-None-Match: * | If-Modified-Since: x
  | Range: bytes=0-0,-1 | Idempotency-Key: a | Idempotency-Key: | X-Forwarded-For: 1.2.3.4
  | Cookie: __proto__=1 | Trailer: Content-Length | TE: trailers`);

const invalidHeaders = listed(`
  No colon | : no name | Space : x | Nul: \0 | Bare-CR: a\rb | Bare-LF: a\nb | Host: a b | Host: é
  | Content-Length: 0 | Content-Length: -1 | Content-Length: 0x10 | Content-Length: 99999999999999999999
  | Content-Length: 1, 1 | Transfer-Encoding: chunked | Transfer-Encoding: identity
  | Transfer-Encoding: chunked, gzip | Transfer-Encoding: xchunked`);

const header = weighted(
  [3, validHeaders],
  [1, invalidHeaders],
  [1, fc.constantFrom(' Folded: x', 'Tab:\t')],
  [1, fc.string({ unit: anyCharacter, maxLength: 40 })],
  [1, long('X-Long: ')],
);

const depth = fc.integer({ min: 1, max: 50_000 });

const json = <T>(values: fc.Arbitrary<T>) => values.map((value) => JSON.stringify(value));
const numbers = fc.oneof(fc.double(), fc.maxSafeInteger(), fc.string());
const anyAction = fc.constantFrom('uppercase', 'sum', 'x', '__proto__', 'constructor', '');

const invalidBody = fc.oneof(
  fc.constantFrom('', ' ', '\ufeff{"action":"x"}'),
  listed(`null | [] | "x" | 0 | NaN | { | } | {"action": | {"action":"x"}{"action":"y"}
    | {"__proto__":{"action":"x"}} | {"action":{}} | {"action":"x","action":1} | {"action":"\\u0000"}
    | {"action":"x","data":{"__proto__":{"text":1},"constructor":{"prototype":{}}}}
    | {"action":"sum","data":{"numbers":[1e400]}} | {"action":"sum","data":{"numbers":[1e308,1e308]}}
    | {"action":"sum","data":[]} | {"action":"uppercase","data":{"text":"\\ud800"}}
    | {"action":"\\ud83d","data":{"\\udc00":1}} | {"api_key":""} | {"api_key":[]} | {"api_key":"\\u0000"}
    | {"api_key":"' OR 1=1 --"}`),
  json(fc.jsonValue()),
  json(fc.record({ action: anyAction, data: fc.jsonValue() })),
  json(fc.record({ action: fc.constant('sum'), data: fc.record({ numbers: fc.array(numbers) }) })),
  fc.bigInt().map((number) => `{"action":"sum","data":{"numbers":[${number}${number}${number}]}}`),
  depth.map((levels) => '['.repeat(levels)),
  depth.map((levels) => `{"action":"x","data":${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}}`),
  fc.constantFrom(0, 1).map((over) => `{"action":"${'x'.repeat(1024 * 1024 - 13 + over)}"}`),
);

const body = weighted<Buffer>(
  [8, invalidBody.map((text) => Buffer.from(text))],
  [2, fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes))],
);

type Framing = (bytes: Buffer) => readonly [headers: string[], framed: Buffer];

const CHUNKED = 'Transfer-Encoding: chunked';

const invalidChunks = fc.constantFrom(
  ...['xyz\r\n', '-1\r\n', 'ffffffffffffffffff\r\n', '5;ext="\r\n', '1\r\nab\r\n0\r\n\r\n'],
  '0\r\nHost: z\r\n\r\n',
);

const framing = weighted<Framing>(
  [4, fc.constant((bytes) => [[`Content-Length: ${bytes.length}`], bytes])],
  [2, fc.constant((bytes) => [[CHUNKED], chunked(bytes)])],
  [2, fc.integer({ min: -20, max: 20 }).map((off) => (bytes) => [[`Content-Length: ${bytes.length + off}`], bytes])],
  [2, fc.nat(30).map((cut) => (bytes) => [[CHUNKED], chunked(bytes).subarray(0, -1 - cut)])],
  [1, invalidChunks.map((text) => () => [[CHUNKED], Buffer.from(text)])],
  [1, fc.constant((bytes) => [[CHUNKED, `Content-Length: ${bytes.length}`], bytes])],
  [1, fc.constant((bytes) => [[], bytes])],
);

function chunked(bytes: Buffer): Buffer {
  const middle = Math.floor(bytes.length / 2);
  const parts = [bytes.subarray(0, middle), bytes.subarray(middle)].filter(({ length }) => length > 0);
  const framed = parts.flatMap((part) => [`${part.length.toString(16)}\r\n`, part, '\r\n']);
  return Buffer.concat([...framed, '0\r\n\r\n'].map((part) => Buffer.from(part as string)));
}

const request = fc
  .record({ method, path, version, host: fc.boolean(), headers: fc.array(header, { maxLength: 4 }), body, framing })
  .map(({ method, path, version, host, headers, body, framing }) => {
    const [framingHeaders, bytes] = method === 'GET' ? [[], Buffer.alloc(0)] : framing(body);
    const lines = [`${method} ${path} ${version}`, ...(host ? ['Host: localhost'] : []), ...headers, ...framingHeaders];
    return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), bytes]);
  });

const omittedBytes = weighted([1, fc.constantFrom(0, 1)], [2, fc.integer({ min: -255, max: 255 })]);

/** At a position, inserts a byte or none, and leaves out that many bytes; a negative number doubles them. */
const mutation = fc
  .tuple(fc.nat(400), fc.uint8Array({ maxLength: 1 }), omittedBytes)
  .map(([at, inserted, omitted]) => (bytes: Buffer) => {
    return Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(Math.max(0, at + omitted))]);
  });

const mutated = fc
  .tuple(request, fc.array(mutation, { minLength: 1, maxLength: 4 }))
  .map(([bytes, mutations]) => mutations.reduce((before, mutate) => mutate(before), bytes));

const otherProtocol = fc
  .oneof(
    fc.uint8Array({ minLength: 1, maxLength: 200 }),
    fc.constantFrom('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '\x16\x03\x01\x02\x00\x01', '\x81\x85\0\0\0\0hello'),
    fc.constantFrom('EHLO x\r\n', '\r\n\r\n\r\n', 'GET /'),
  )
  .map((value) => (typeof value === 'string' ? Buffer.from(value, 'latin1') : Buffer.from(value)));

/** Mostly invalid HTTP: one request or several in a row, whole or split anywhere. */
export const sendings: fc.Arbitrary<Sending> = fc
  .tuple(
    fc.array(weighted([6, request], [2, mutated], [1, otherProtocol]), { minLength: 1, maxLength: 4 }),
    fc.array(fc.nat(2000), { maxLength: 3 }),
  )
  .map(([requests, cuts]) => {
    const whole = Buffer.concat(requests);
    const bounds = [0, ...cuts.filter((cut) => cut < whole.length).sort((a, b) => a - b), whole.length];
    return bounds.slice(1).map((end, index) => whole.subarray(bounds[index], end));
  });

/** Silence in milliseconds after which the client ends the connection. */
const SILENCE_MS = 30;

/** Sends bytes on a new connection. Asserts that all responses are valid HTTP and every error is a specified one. */
export async function exchange(port: number, pieces: Sending): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  let wire = '';
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (text: string) => {
    wire += text;
  });
  let endedHere = false;
  socket.setTimeout(SILENCE_MS, () => {
    endedHere = true;
    socket.end();
  });
  for (const piece of pieces) {
    if (socket.destroyed) break;
    socket.write(piece);
    await setTimeout(0);
  }
  await closed;
  if (endedHere) wire = withoutOpenEnd(wire);
  noteWire(serviceAt(port), wire);
  const { responses, rest } = parseResponses(wire);
  // A client that ends the connection, or sends after the server has ended it, may lose the end of the last response.
  expect(rest).to.match(/^$|^HTTP\/1\.1 /);
  for (const { status, headers, body } of responses) {
    if (status < 400) continue;
    expect(status, body).to.be.below(500);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    const { error, ...fields } = JSON.parse(body);
    expect(error).to.be.a('string').and.not.equal('');
    expect(Object.keys(fields), body).to.deep.equal(error === 'invalid query' ? ['parameter', 'detail'] : []);
  }
}

/** Removes a last response whose body lasts until the end of the connection, which the client may have truncated. */
function withoutOpenEnd(wire: string): string {
  const last = Math.max(0, wire.lastIndexOf('HTTP/1.1 '));
  const [head = ''] = wire.slice(last).split('\r\n\r\n');
  return /^(content-length|transfer-encoding):/im.test(head) ? wire : wire.slice(0, last);
}
