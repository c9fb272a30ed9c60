import { expect } from 'chai';
import { apiHeaders } from '../../../main/http/json-reply.ts';
import { type Answered, checkAnswer, checkFrame } from '../../support/contract.ts';
import { failIfUndescribed, holdToContract, noteWire, serviceAt } from '../../support/contract-watch.ts';
import { request } from '../../support/program.ts';
import { serve } from '../../support/server.ts';

const ID = '3f0f4c1e-8f6b-4d7e-9a51-0f4f3c2b1a90';
const json = { ...apiHeaders, 'Content-Type': 'application/json; charset=utf-8' };

function accepted(changes: Partial<Omit<Answered, 'headers'>> = {}, headers: Record<string, string> = {}): Answered {
  const request = { method: 'POST', path: '/tasks' };
  const all = new Headers({ ...json, Location: `/tasks/${ID}`, ...headers });
  return { service: 'tasks', request, status: 202, headers: all, body: `{"id":"${ID}","status":"queued"}`, ...changes };
}

const get = (path: string) => ({ method: 'GET', path });

describe('the check of all responses against the contract', () => {
  it('fails for each kind of deviation, and passes described responses', () => {
    for (const [answer, message] of [
      [accepted({ body: `{"id":"${ID}","status":"queued","x":1}` }), /additional properties/],
      [accepted({ body: `{"id":"${ID}"}` }), /required property 'status'/],
      [accepted({ status: 201 }), /tasks POST \/tasks 201: the status/],
      [accepted({}, { 'Content-Type': 'text/plain' }), /content type "text\/plain"/],
      [accepted({}, { Location: '/' }), /header Location: \/ is not/],
      [accepted({ service: 'ticker' }), /ticker POST \/tasks 202/],
      [accepted({ request: { method: 'HEAD', path: '/queue' }, status: 200 }), /body is not described/],
      [accepted({ request: undefined, body: '{"error":"no"}' }), /no operation/],
    ] as const)
      expect(() => checkAnswer(answer)).to.throw(message);
    checkAnswer(accepted());
    checkAnswer(accepted({ request: undefined }));
    checkAnswer(accepted({ request: { method: 'POST', path: `/dead-letters/${ID}/retry` } }));
    checkAnswer(accepted({ request: get('/x/y'), status: 404, body: '{"error":"not found"}' }));
  });

  it('fails for undescribed frames and events', () => {
    checkFrame('{"type":"pong"}');
    for (const frame of ['{"type":"pang"}', '{"type":"pong","x":1}', 'null', 'x', '{"type":"ticker","data":[]}'])
      expect(() => checkFrame(frame), frame).to.throw('contract: ');
    const stream = (body: string) =>
      accepted({ request: get('/tasks/events'), status: 200, body }, { 'Content-Type': 'text/event-stream' });
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
    for (const [service, sent, head, message] of [
      ['tasks', 'GET /queue', '500 Oops\r\nContent-Length: 0', 'GET /queue 500'],
      ['ticker', 'GET /ws/ticker', '101 Switching Protocols\r\nUpgrade: websocket', 'the header Connection is missing'],
      ['tasks', undefined, '402 Pay\r\nContent-Length: 0', '402: no operation'],
    ] as const) {
      noteWire(service, `HTTP/1.1 ${head}\r\n\r\n`, sent && `${sent} HTTP/1.1\r\n\r\n`);
      expect(failIfUndescribed).to.throw(message);
    }
  });
});
