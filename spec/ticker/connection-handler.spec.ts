import { expect } from 'chai';
import fc from 'fast-check';
import { closeCodes } from '../../main/ticker/close-codes.ts';
import { createHandler, createHandlersByToken, TICKER } from '../../main/ticker/connection-handler.ts';
import type { NumberedStream } from '../../main/ticker/numbered-stream.ts';
import { type ExitReason, type LifecycleMessage, PidRegistry } from '../../main/ticker/pid-registry.ts';

const sent = (message: object) => ({ topic: 'ws.send', type: 'text', data: JSON.stringify(message) });

/** Stream of `ticker.v2`, which these handlers do not use. */
const numbered = {} as NumberedStream;

/** Starts a handler. Returns it with everything that it sends, in order, by receiver. */
function start(actorId = 'user:demo') {
  const actors = new PidRegistry();
  const sentTo: [to: string, message: LifecycleMessage][] = [];
  const client = actors.spawn('client', () => ({ receive: (message) => sentTo.push(['client', message]) }));
  actors.register(TICKER, { receive: (message) => sentTo.push(['ticker', message]) });
  const handler = createHandler(actors, actorId, numbered);
  const ends: ExitReason[] = [];
  actors.monitor(handler, { onExit: (_pid, reason) => ends.push(reason) });
  const tell = (...messages: LifecycleMessage[]) => {
    for (const message of messages) actors.send(handler, message);
  };
  const join = () => {
    tell({ topic: 'ws.join', client_pid: client });
    return sentTo.splice(0);
  };
  return { actors, handler, client, sentTo, ends, tell, join };
}

describe('a handler', () => {
  it('sends nothing until the client joins', () => {
    const { sentTo, actors } = start();
    expect(sentTo).to.deep.equal([]);
    expect(actors.size).to.equal(3);
  });

  it('welcomes the client that joins, then subscribes it to the ticker', () => {
    const { join, client, handler } = start('user:someone');
    expect(join()).to.deep.equal([
      ['client', sent({ type: 'welcome', user_id: 'user:someone' })],
      ['ticker', { topic: 'subscribe', client_pid: client, handler_pid: handler }],
    ]);
  });

  it('answers each ping with a pong', () => {
    const { join, tell, sentTo } = start();
    join();
    const pings = [
      '{"type":"ping"}',
      ' {"type" : "ping", "more": 1}\n',
      '{"type":"\\u0070ing"}',
      '{"type":0,"type":"ping"}',
    ];
    for (const data of pings) tell({ topic: 'ws.message', data });
    expect(sentTo).to.deep.equal(pings.map(() => ['client', sent({ type: 'pong' })]));
  });

  it('answers exactly the objects whose type is ping, among all JSON and all text', () => {
    const { join, tell, sentTo } = start();
    join();
    const message = fc.oneof(
      fc.constantFrom(
        '{"Type":"ping"}',
        '{"__proto__":{"type":"ping"}}',
        '{"data":{"type":"ping"}}',
        '{"type":["ping"]}',
      ),
      fc.string(),
      fc.json(),
      fc.record({ type: fc.constantFrom('ping', 'pong', 1) }).map((it) => JSON.stringify(it)),
    );
    fc.assert(
      fc.property(message, (data) => {
        tell({ topic: 'ws.message', data });
        let ping = false;
        try {
          ping = JSON.parse(data)?.type === 'ping';
        } catch {}
        expect(sentTo.splice(0)).to.have.lengthOf(ping ? 1 : 0);
      }),
    );
  });

  it('unsubscribes and ends when the client leaves', () => {
    const { join, tell, sentTo, handler, ends, actors } = start();
    join();
    tell({ topic: 'ws.leave', reason: 'closed with code 1000' });
    expect(sentTo).to.deep.equal([['ticker', { topic: 'unsubscribe', handler_pid: handler }]]);
    expect(ends).to.deep.equal(['normal']);
    expect(actors.size).to.equal(2);
  });

  it('has no effect any more once it has ended', () => {
    const { join, tell, sentTo } = start();
    join();
    tell({ topic: 'ws.leave', reason: '' });
    sentTo.splice(0);
    tell({ topic: 'ws.message', data: '{"type":"ping"}' }, { topic: 'ws.leave', reason: '' });
    expect(sentTo).to.deep.equal([]);
  });

  it('answers no ping of a client that has not joined', () => {
    const { tell, sentTo } = start();
    tell({ topic: 'ws.message', data: '{"type":"ping"}' });
    expect(sentTo).to.deep.equal([]);
  });

  it('serves its own client only', () => {
    const { actors, join, tell, sentTo } = start();
    join();
    const others: LifecycleMessage[] = [];
    const client = actors.spawn('client', () => ({ receive: (message) => others.push(message) }));
    const other = createHandler(actors, 'user:other', numbered);
    actors.send(other, { topic: 'ws.join', client_pid: client });
    expect(others).to.deep.equal([sent({ type: 'welcome', user_id: 'user:other' })]);
    sentTo.splice(0);
    tell({ topic: 'ws.message', data: '{"type":"ping"}' });
    expect(others).to.have.lengthOf(1);
  });
});

describe('HandlersByToken', () => {
  it('knows just the handlers that are alive, whatever happens to them', () => {
    const steps = fc.array(
      fc.record({ does: fc.constantFrom('start', 'exit', 'end'), token: fc.nat(3), which: fc.nat() }),
    );
    fc.assert(
      fc.property(steps, (all) => {
        const actors = new PidRegistry();
        const handlersByToken = createHandlersByToken(actors);
        const alive = new Map<string, string>();
        for (const { does, token, which } of all) {
          const id = `token ${token}`;
          if (does === 'start') {
            const pid = actors.spawn('handler', () => ({ receive() {} }));
            alive.set(pid, id);
            actors.monitor(pid, { onExit: () => alive.delete(pid) });
            handlersByToken.add(id, pid);
          } else if (does === 'exit') {
            const pid = [...alive.keys()][which % alive.size];
            if (pid !== undefined) actors.exit(pid, 'normal');
          } else {
            handlersByToken.end(id, 'token revoked');
            expect([...alive.values()]).to.not.include(id);
          }
          expect(handlersByToken.size).to.equal(new Set(alive.values()).size);
          expect(actors.size).to.equal(alive.size);
        }
      }),
    );
  });

  it('ends handlers with the reason, and does nothing for a token without any', () => {
    const actors = new PidRegistry();
    const handlersByToken = createHandlersByToken(actors);
    const reasons: unknown[] = [];
    const pid = actors.spawn('handler', () => ({ receive() {} }));
    actors.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
    handlersByToken.add('a', pid);
    handlersByToken.end('b', 'token revoked');
    expect(reasons).to.deep.equal([]);
    handlersByToken.end('a', 'token expired');
    handlersByToken.end('a', 'token revoked');
    expect(reasons).to.deep.equal([closeCodes.tokenExpired]);
  });
});
