import { once } from 'node:events';
import { connect as connectSocket } from 'node:net';
import { mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import type { TickerAppOptions } from '../../main/ticker/service.ts';
import { HANDSHAKES_PER_TURN } from '../../main/ticker/ws-relay.ts';
import { afterTest } from '../support/cleanup.ts';
import { countTurns } from '../support/event-loop-turns.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake, head, parseResponse } from '../support/raw-connection.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';

/** Starts service A with a token check that waits for `open()`, so that a test can act during a handshake. */
async function startGated(replaced: Partial<TickerAppOptions> = {}) {
  let waiting = 0;
  const gate = Promise.withResolvers<void>();
  const bundle = await startTickerBundle({
    replace: ({ tokens }) => ({
      ...replaced,
      tokens: {
        lifetimeSeconds: tokens.lifetimeSeconds,
        issue: tokens.issue.bind(tokens),
        isLive: tokens.isLive.bind(tokens),
        revoke: tokens.revoke.bind(tokens),
        async verify(token) {
          waiting++;
          await gate.promise;
          return tokens.verify(token);
        },
      },
    }),
  });
  afterTest(() => gate.resolve());
  const raw = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
  await until(() => waiting === 1);
  return { bundle, raw, open: gate.resolve, waiting: () => waiting };
}

/** Starts service A, and completes the requests of many handshakes at once. Calls `onBegin` when one begins. */
async function shakeHandsAtOnce(count: number, onBegin: (bundle: TickerBundle) => void): Promise<TickerBundle> {
  const bundle = await startTickerBundle({
    replace: ({ tokens }) => ({
      tokens: Object.assign(Object.create(tokens), {
        verify(token: string) {
          onBegin(bundle);
          return tokens.verify(token);
        },
      }),
    }),
  });
  const text = head(...handshake('/ws/ticker', await bundle.token()));
  const clients = await Promise.all(Array.from({ length: count }, () => connectRaw(bundle.listener.port)));
  for (const { socket } of clients) socket.write(text.slice(0, -2));
  await until(() => bundle.sockets.size === count);
  for (const { socket } of clients) socket.write('\r\n');
  return bundle;
}

describe('a handshake', () => {
  afterEach(() => mock.timers.reset());

  it('is refused with 400 when it is malformed, and leaves no handler', async () => {
    const bundle = await startTickerBundle();
    const good = handshake('/ws/ticker', await bundle.token());
    const replace = (name: string, ...lines: string[]) => [...good.filter((line) => !line.startsWith(name)), ...lines];
    const malformed = [
      replace('Sec-WebSocket-Key'),
      replace('Sec-WebSocket-Key', 'Sec-WebSocket-Key: x'),
      replace('Sec-WebSocket-Key', 'Sec-WebSocket-Key: '),
      replace('Sec-WebSocket-Version'),
      replace('Sec-WebSocket-Version', 'Sec-WebSocket-Version: 7'),
      replace('Sec-WebSocket-Version', 'Sec-WebSocket-Version: x'),
      [...good, 'Sec-WebSocket-Protocol: a b'],
      [...good, 'Sec-WebSocket-Protocol: a,a'],
      [...good, 'Sec-WebSocket-Protocol: '],
    ];
    for (const lines of malformed) {
      const raw = await connectRaw(bundle.listener.port, ...lines);
      const { status, headers, body } = parseResponse(await raw.ended);
      expect({ status, body }, lines.at(-1)).to.deep.equal({
        status: 400,
        body: '{"error":"invalid WebSocket handshake"}\n',
      });
      expect(headers).to.match(/\r\nSec-WebSocket-Version: 13/);
      expect(headers).to.match(/\r\nContent-Type: application\/json/);
      expect(headers).to.not.match(/x-ws-relay/i);
    }
    expect(bundle.actors.size).to.equal(1);
    expect(bundle.relay.size).to.equal(0);
    await until(() => bundle.sockets.size === 0);
  });

  it('behind an exchange of a key never brings the token into the stream', async () => {
    const bundle = await startTickerBundle();
    const body = JSON.stringify({ api_key: bundle.apiKey });
    const exchange = head('POST /auth/token HTTP/1.1', 'Host: x', `Content-Length: ${body.length}`) + body;
    const raw = await connectRaw(bundle.listener.port);
    raw.socket.write(exchange + head(...handshake('/ws/ticker', await bundle.token())));
    expect(await raw.ended).to.equal('');
    expect(bundle.actors.size).to.equal(1);
    await until(() => bundle.sockets.size === 0);
  });

  it('counts as a plain connection until it joins', async () => {
    const bundle = await startTickerBundle({ maxConnections: 5 });
    for (let client = 0; client < 3; client++) {
      const raw = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
      await raw.until(/"welcome"/);
    }
    const refused = connectSocket({ port: bundle.listener.port, host: '127.0.0.1', allowHalfOpen: true });
    afterTest(() => refused.destroy());
    const ended = once(refused, 'end');
    refused.on('error', () => {}).resume();
    refused.write(head(...handshake()));
    await ended;
    // The refused client does not close its side, so its connection still counts.
    const next = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
    expect(await next.ended).to.equal('');
  });

  it('may name the protocol in any case', async () => {
    const { listener, token } = await startTickerBundle();
    const lines = handshake('/ws/ticker', await token()).map((line) =>
      line === 'Upgrade: websocket' ? 'upgrade: WebSocket' : line,
    );
    const raw = await connectRaw(listener.port, ...lines);
    expect(await raw.until(/"welcome"/)).to.match(/^HTTP\/1\.1 101 /);
  });

  for (const [path, status, body] of [
    ['/', 200, /^<!doctype html>/i],
    ['/ws', 200, /^<!doctype html>/i],
    ['/ws/other', 200, /^<!doctype html>/i],
    ['/ws/ticker/', 200, /^<!doctype html>/i],
    ['/WS/Ticker', 200, /^<!doctype html>/i],
    ['/auth/token', 405, /^{"error":"method not allowed"}\n$/],
    ['/ws/ticker', 401, /^{"error":"authentication required"}\n$/],
  ] as const) {
    it(`to ${path} without a token is answered with ${status} as plain HTTP, and the connection ends`, async () => {
      const bundle = await startTickerBundle();
      const raw = await connectRaw(bundle.listener.port, ...handshake(path));
      const response = parseResponse(await raw.ended);
      expect(response.status).to.equal(status);
      expect(response.body).to.match(body);
      expect(response.headers).to.match(/\r\nconnection: close/i);
      await until(() => bundle.sockets.size === 0);
      expect(bundle.actors.size).to.equal(1);
    });
  }

  it('whose client is gone before it is complete leaves no handler', async () => {
    const { bundle, raw, open } = await startGated();
    raw.socket.resetAndDestroy();
    await until(() => bundle.sockets.size === 0);
    open();
    // A handler of the reset connection would live for one event-loop turn at most. A later handshake shows that it
    // is gone.
    const later = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
    await later.until(/"welcome"/);
    expect(bundle.relay.size).to.equal(1);
    expect(bundle.actors.size).to.equal(3);
    expect(bundle.lines).to.deep.equal([]);
  });

  it('is one of 32 at most that begin in a turn of the event loop', async () => {
    const turn = countTurns();
    const begun: number[] = [];
    const bundle = await shakeHandsAtOnce(200, () => begun.push(turn()));
    await until(() => bundle.relay.size === 200);
    const perTurn = Map.groupBy(begun, (number) => number);
    for (const { length } of perTurn.values()) expect(length).to.be.at.most(HANDSHAKES_PER_TURN);
    expect(begun).to.have.lengthOf(200);
  });

  it('that was deferred to a later turn, and whose socket is closed by then, is not begun', async () => {
    let begun = 0;
    const bundle = await shakeHandsAtOnce(100, ({ relay }) => {
      // Closes the relay in the next turn, when all handshakes have arrived and as many again have begun.
      if (++begun === 1) setImmediate(() => relay.close(Promise.resolve()));
    });
    await until(() => bundle.sockets.size === 0);
    // All deferred handshakes would begin within these turns.
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    expect(begun).to.be.at.most(2 * HANDSHAKES_PER_TURN);
  });

  it('that asks for another response, and whose client is gone by then, releases the memory of the response', async () => {
    // A response of 1 MB. All responses together may take 8 MiB.
    const prices = { ['x'.repeat(1_000_000)]: [1] };
    const history = { size: 1, last: () => ({ interval_ms: 1000, timestamps: [1], prices }) };
    const { bundle, raw, open, waiting } = await startGated({ history });
    const lines = handshake('/prices/history', await bundle.token());
    const clients = await Promise.all(Array.from({ length: 10 }, () => connectRaw(bundle.listener.port, ...lines)));
    await until(() => waiting() === 11);
    for (const { socket } of [raw, ...clients]) socket.resetAndDestroy();
    await until(() => bundle.sockets.size === 0);
    open();
    const headers = { authorization: `Bearer ${await bundle.token()}` };
    expect(await request(`${bundle.url}/prices/history`, { headers })).to.have.property('status', 200);
  });

  it('whose client half-closes before it is complete leaves no handler and no socket', async () => {
    const { bundle, raw, open } = await startGated();
    const [server] = bundle.sockets;
    if (server === undefined) throw new Error('no connection');
    raw.socket.end();
    await until(() => bundle.sockets.size === 0 || server.readableEnded || !server.readable);
    open();
    await raw.ended;
    await until(() => bundle.sockets.size === 0);
    expect(bundle.relay.size).to.equal(0);
    expect(bundle.actors.size).to.equal(1);
  });

  it('on its way when the relay closes is not completed', async () => {
    const { bundle, raw, open } = await startGated();
    await bundle.relay.close(Promise.resolve());
    open();
    expect(await raw.ended).to.equal('');
    await until(() => bundle.sockets.size === 0);
    expect(bundle.relay.size).to.equal(0);
    expect(bundle.actors.size).to.equal(1);
  });

  it('that is complete after it was refused as too late is not answered again', async () => {
    const timeouts = { headers: 100, request: 200, check: 20, closing: 3_600_000 };
    const bundle = await startTickerBundle({ timeouts });
    const [first = '', ...rest] = handshake();
    const socket = connectSocket({ port: bundle.listener.port, host: '127.0.0.1', allowHalfOpen: true });
    afterTest(() => socket.destroy());
    const ended = once(socket, 'end');
    socket.on('error', () => {}).resume();
    socket.write(`${first}\r\n`);
    await ended;
    socket.write(head(...rest));
    await until(() => bundle.sockets.size === 0);
    expect(bundle.actors.size).to.equal(1);
    expect(bundle.lines).to.deep.equal([]);
  });

  it('is refused once the relay is closed', async () => {
    const bundle = await startTickerBundle();
    await bundle.relay.close(Promise.resolve());
    const raw = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
    expect(await raw.ended).to.equal('');
    expect(bundle.actors.size).to.equal(1);
  });

  it('that was refused is cut off when the client keeps the connection open', async () => {
    const bundle = await startTickerBundle({ limits: { timeouts: { handshakeMs: 500 } } });
    const socket = connectSocket({ port: bundle.listener.port, host: '127.0.0.1', allowHalfOpen: true });
    afterTest(() => socket.destroy());
    socket.on('error', () => {}).resume();
    socket.write(head(...handshake()));
    await once(socket, 'end');
    await until(() => bundle.sockets.size === 0);
  });
});
