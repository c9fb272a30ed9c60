import { expect } from 'chai';
import { apiHeaders } from '../../../main/http/json-reply.ts';
import { type Answered, checkAnswer, checkFrame } from '../../support/contract.ts';
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
  [accepted({ body: { id: ID } }), /required property 'status'/],
  [accepted({ status: 201 }), /tasks POST \/tasks 201: the status/],
  [accepted({ headers: { 'Content-Type': 'text/plain' } }), /content type "text\/plain"/],
  [accepted({ headers: { Location: '/' } }), /header Location: \/ is not/],
  [accepted({ service: 'ticker' }), /ticker POST \/tasks 202/],
  [accepted({ request: { method: 'HEAD', path: '/queue' }, status: 200 }), /body is not described/],
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
    for (const frame of ['{"type":"pang"}', '{"type":"pong","x":1}', 'null', 'x', '{"type":"ticker","data":[]}'])
      expect(() => checkFrame(frame), frame).to.throw('contract: ');
    const headers = { 'Content-Type': 'text/event-stream' };
    const stream = (body: string) => ({ ...accepted({ request: get('/tasks/events'), status: 200, headers }), body });
    const started = `id: 1\nevent: started\ndata: {"id":"${ID}","action":"sum","status":"running","attempt":1,"at":1}\n\n`;
    checkAnswer(stream(`retry: 1000\n\n:\n\n${started}event: gap\ndata: {"missed":3}\n\nevent: cut`));
    for (const [changed, message] of [
      [started.replace('started', 'ended'), 'no event "ended"'],
      [started.replace('"attempt":1', '"attempt":0'), 'event started'],
      [started.replace('id: 1\n', ''), 'has no id'],
    ] as const)
      expect(() => checkAnswer(stream(changed))).to.throw(message);
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

  it('fails for undescribed raw responses', () => {
    const head = (status: string, ...lines: string[]) => `HTTP/1.1 ${[status, ...lines].join('\r\n')}\r\n\r\n`;
    for (const [status, header, request, message] of [
      ['500 Oops', 'Content-Length: 0', 'GET /queue', 'GET /queue 500'],
      ['101 Switching Protocols', 'Upgrade: websocket', 'GET /ws/ticker', 'the header Connection is missing'],
      ['402 Pay', 'Content-Length: 0', undefined, '402: no operation'],
    ] as const) {
      const service = request === 'GET /ws/ticker' ? 'ticker' : 'tasks';
      noteWire(service, head(status, header), request && `${request} HTTP/1.1\r\n\r\n`);
      expect(failIfUndescribed).to.throw(message);
    }
  });
});
