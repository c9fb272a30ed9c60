import { expect } from 'chai';
import { apiHeaders } from '../../../main/http/json-reply.ts';
import { type Answered, checkAnswer, checkEvent, checkFrame } from '../../support/contract.ts';
import { failIfUndescribed, holdToContract, noteWire, serviceAt } from '../../support/contract-watch.ts';
import { request } from '../../support/program.ts';
import { serve } from '../../support/server.ts';

const ID = '3f0f4c1e-8f6b-4d7e-9a51-0f4f3c2b1a90';
const json = { ...apiHeaders, 'Content-Type': 'application/json; charset=utf-8' };

/** The response to a submission, with the given parts replaced. */
function accepted({ body = { id: ID, status: 'queued' }, headers = {}, ...rest }: Changes = {}): Answered {
  return {
    ...{ service: 'tasks', request: { method: 'POST', path: '/tasks' }, status: 202 },
    headers: new Headers({ ...json, Location: `/tasks/${ID}`, ...headers }),
    body: JSON.stringify(body),
    ...rest,
  };
}

type Changes = Partial<Omit<Answered, 'headers' | 'body'>> & { headers?: Record<string, string>; body?: unknown };

const get = (path: string) => ({ method: 'GET', path });
const notFound = { status: 404, body: { error: 'not found' } };

/** Responses that the contract does not describe, and the expected error. */
const undescribed: [Answered, RegExp][] = [
  [accepted({ body: { id: ID, status: 'queued', x: 1 } }), /additional properties/],
  [accepted({ body: { id: 'x', status: 'queued' } }), /format "uuid"/],
  [accepted({ body: { id: ID } }), /required property 'status'/],
  [accepted({ status: 201 }), /tasks POST \/tasks 201: the status/],
  [accepted({ status: 400, body: { error: 'api_key required' } }), /error must be equal to one of/],
  [accepted({ headers: { 'Content-Type': 'text/plain' } }), /content type "text\/plain"/],
  [{ ...accepted(), headers: new Headers(json) }, /header Location is missing/],
  [accepted({ headers: { Location: '/' } }), /header Location: \/ is not/],
  [accepted({ request: { method: 'PUT', path: '/tasks' } }), /PUT \/tasks 202: the status/],
  [accepted({ request: { method: 'POST', path: '/Tasks' } }), /POST \/Tasks 202: the status/],
  [accepted({ service: 'ticker' }), /ticker POST \/tasks 202/],
  [accepted({ request: { method: 'HEAD', path: '/queue' }, status: 200 }), /body is not described/],
  [accepted({ service: 'ticker', request: get('/x'), ...notFound }), /the status/],
  [accepted({ request: undefined, body: { error: 'no' } }), /no operation/],
];

/** Responses that the contract describes. */
const described = [
  accepted(),
  accepted({ request: undefined }),
  accepted({ request: { method: 'POST', path: `/dead-letters/${ID}/retry` } }),
  accepted({ request: get('/x/y'), ...notFound }),
];

describe('the check of all responses against the contract', () => {
  it('fails for each kind of deviation, and passes described responses', () => {
    for (const [answer, message] of undescribed) expect(() => checkAnswer(answer)).to.throw(message);
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
