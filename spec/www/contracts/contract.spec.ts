import { expect } from 'chai';
import { apiHeaders } from '../../../main/http/json-reply.ts';
import { type Answered, checkAnswer, checkEvent, checkFrame } from '../../support/contract.ts';
import { failIfUndescribed, holdToContract, noteWire, serviceAt } from '../../support/contract-watch.ts';
import { request } from '../../support/program.ts';
import { serve } from '../../support/server.ts';

const ID = '3f0f4c1e-8f6b-4d7e-9a51-0f4f3c2b1a90';
const json = { ...apiHeaders, 'Content-Type': 'application/json; charset=utf-8' };

/** The response to a submission, with the given parts replaced. */
function accepted({
  headers = {},
  body,
  ...rest
}: Partial<Omit<Answered, 'headers' | 'body'>> & Changes = {}): Answered {
  return {
    service: 'tasks',
    request: { method: 'POST', path: '/tasks' },
    status: 202,
    headers: new Headers({ ...json, Location: `/tasks/${ID}`, ...headers }),
    body: JSON.stringify(body ?? { id: ID, status: 'queued' }),
    ...rest,
  };
}

interface Changes {
  headers?: Record<string, string>;
  body?: unknown;
}

const get = (path: string) => ({ method: 'GET', path });
const notFound = { status: 404, body: { error: 'not found' } };

/** Responses that the contract does not describe, and the expected error. */
const undescribed: [string, Answered, RegExp][] = [
  ['a further field', accepted({ body: { id: ID, status: 'queued', x: 1 } }), /additional properties/],
  ['a field of another type', accepted({ body: { id: 1, status: 'queued' } }), /id must be string/],
  ['an id of another format', accepted({ body: { id: 'x', status: 'queued' } }), /format "uuid"/],
  ['a missing field', accepted({ body: { id: ID } }), /required property 'status'/],
  ['a status', accepted({ status: 201 }), /tasks POST \/tasks 201: the status/],
  ['an error text', accepted({ status: 400, body: { error: 'no' } }), /error must be equal to one of/],
  ['an error text of another path', accepted({ status: 400, body: { error: 'api_key required' } }), /one of/],
  ['a content type', accepted({ headers: { 'Content-Type': 'text/plain' } }), /content type "text\/plain"/],
  ['a missing header', { ...accepted(), headers: new Headers(json) }, /header Location is missing/],
  ['a header’s value', accepted({ headers: { Location: '/' } }), /header Location: \/ is not/],
  ['another cache policy', accepted({ headers: { 'Cache-Control': 'public' } }), /header Cache-Control: public/],
  ['a method', accepted({ request: { method: 'PUT', path: '/tasks' } }), /PUT \/tasks 202: the status/],
  ['a path', accepted({ request: get('/nothing') }), /GET \/nothing 202: the status/],
  ['another case', accepted({ request: { method: 'POST', path: '/Tasks' } }), /POST \/Tasks 202: the status/],
  ['a trailing slash', accepted({ request: { method: 'POST', path: '/tasks/' } }), /POST \/tasks\/ 202: the status/],
  ['a path of the other service', accepted({ service: 'ticker' }), /ticker POST \/tasks 202/],
  ['a path of no server', accepted({ service: 'admin', request: get('/tasks') }), /admin GET \/tasks 202/],
  ['a body of HEAD', accepted({ request: { method: 'HEAD', path: '/queue' }, status: 200 }), /body is not described/],
  ['a 404 of service A', accepted({ service: 'ticker', request: get('/x'), ...notFound }), /the status/],
  ['an unknown error of an unknown request', accepted({ request: undefined, body: { error: 'no' } }), /no operation/],
];

/** Responses that the contract describes. */
const described: Answered[] = [
  accepted(),
  accepted({ request: undefined }),
  accepted({ request: { method: 'POST', path: `/dead-letters/${ID}/retry` } }),
  accepted({
    request: { method: 'PUT', path: '/tasks' },
    status: 405,
    headers: { Allow: 'GET, HEAD, POST, OPTIONS' },
    body: { error: 'method not allowed' },
  }),
  accepted({ request: get('/x/y'), ...notFound }),
  accepted({
    status: 200,
    headers: { 'Preference-Applied': 'wait=30' },
    body: { id: ID, payload: '{}', status: 'completed', result: '{"output":1}', created_at: 1, processed_at: 1 },
  }),
  accepted({
    service: 'admin',
    request: get('/readyz'),
    status: 503,
    body: {
      status: 'not ready',
      checks: { queue: { state: 'failed', detail: 'x' }, b: { state: 'warning', detail: 'y' } },
    },
  }),
];

describe('the check of all responses against the contract', () => {
  it('fails for each kind of deviation, and passes described responses', () => {
    for (const [what, answer, message] of undescribed) expect(() => checkAnswer(answer), what).to.throw(message);
    for (const answer of described) checkAnswer(answer);
  });

  it('fails for undescribed frames and events', () => {
    checkFrame('{"type":"pong"}');
    const wrong = ['{"type":"pang"}', '{"type":"pong","x":1}', '[]', 'null', 'x', '{"type":"ticker","data":[]}'];
    for (const frame of wrong) {
      expect(() => checkFrame(frame), frame).to.throw('contract: ');
    }
    checkEvent('gap', '{"missed":null}');
    for (const [name, data] of Object.entries({ gap: '{}', started: `{"id":"${ID}","status":"running"}`, other: '{}' }))
      expect(() => checkEvent(name, data), name).to.throw('contract: ');
  });

  it('checks each event of a stream', () => {
    const headers = { 'Content-Type': 'text/event-stream' };
    const stream = (body: string) => ({ ...accepted({ request: get('/tasks/events'), status: 200, headers }), body });
    const started = `id: 1\nevent: started\ndata: {"id":"${ID}","action":"sum","status":"running","attempt":1,"at":1}\n\n`;
    checkAnswer(stream(`retry: 1000\n\n:\n\n${started}event: gap\ndata: {"missed":3}\n\nevent: cut`));
    expect(() => checkAnswer(stream(started.replace('started', 'ended')))).to.throw('no event "ended"');
    expect(() => checkAnswer(stream(started.replace('"attempt":1', '"attempt":0')))).to.throw('event started');
    expect(() => checkAnswer(stream(started.replace('id: 1\n', '')))).to.throw('has no id');
  });

  it('fails a test although the code of the test has not looked at the response', async () => {
    const { url, listener } = await serve((_request, response) => void response.end('{}'));
    await request(`${url}/queue`);
    failIfUndescribed();
    const { forget } = holdToContract(listener.port, 'tasks');
    await request(`${url}/queue`);
    expect(failIfUndescribed).to.throw('tasks GET /queue 200: the header');
    failIfUndescribed();
    forget();
    expect(serviceAt(url)).to.equal(undefined);
  });

  it('checks raw responses', () => {
    const head = (status: string, ...lines: string[]) => `HTTP/1.1 ${[status, ...lines].join('\r\n')}\r\n\r\n`;
    noteWire('tasks', head('500 Oops', 'Content-Length: 0'), 'GET /queue HTTP/1.1\r\n\r\n');
    expect(failIfUndescribed).to.throw('GET /queue 500');
    noteWire('ticker', head('101 Switching Protocols', 'Upgrade: websocket'), 'GET /ws/ticker HTTP/1.1\r\n\r\n');
    expect(failIfUndescribed).to.throw('the header Connection is missing');
    noteWire('tasks', head('402 Pay', 'Content-Length: 0'));
    expect(failIfUndescribed).to.throw('402: no operation');
  });
});
