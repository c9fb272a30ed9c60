import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { mock } from 'node:test';
import { expect } from 'chai';
import type { WebSocket } from 'ws';
import { type Actor, type CloseCode, closeCodes, type Monitor } from '../../main/ticker/pid-registry.ts';
import { FINAL_CLOSE_CODES } from '../../www/client/errors.ts';
import { Crowd } from '../load/crowd.ts';
import { onceForSuite } from '../support/cleanup.ts';
import { liveHeapBytes } from '../support/proc.ts';
import { connectHalfOpen, connectRaw, handshake, head, parseResponse } from '../support/raw-connection.ts';
import { Recorder } from '../support/ticker.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

const PING = '{"type":"ping"}';
const never = new Promise<void>(() => {});

/** Starts service A with `handler` in place of every connection's handler. */
async function startWith(handler: Actor, limits = {}, onExit: Monitor['onExit'] = () => {}): Promise<TickerBundle> {
  const bundle = await startTickerBundle({
    limits,
    replace: () => ({
      createHandler() {
        const pid = bundle.actors.spawn('handler', () => handler);
        bundle.actors.monitor(pid, { onExit });
        return pid;
      },
    }),
  });
  return bundle;
}

/** Returns the code of the close frame without a reason that ends what a client has received, if there is one. */
function closeCodeIn(received: string): number | undefined {
  const last = Buffer.from(received.slice(-4), 'latin1');
  return last[0] === 0x88 ? last.readUInt16BE(2) : undefined;
}

function sendFragments(socket: WebSocket, pieces: string[]): void {
  for (const [index, piece] of pieces.entries()) socket.send(piece, { fin: index === pieces.length - 1 });
}

describe('the relay', () => {
  const shared = onceForSuite(() => startTickerBundle());

  it('passes join, messages and leave on to the handler, and what it sends to the client, in order', async () => {
    const handler = new Recorder();
    const bundle = await startWith(handler);
    const token = await bundle.token();
    const { socket, next } = await connect(bundle.stream, { token });
    const joined = (await handler.next()) as { topic: string; client_pid: string };
    expect(Object.keys(joined)).to.have.members(['topic', 'client_pid']);
    expect(joined.topic).to.equal('ws.join');
    // Texts with as many bytes as fill each of the three lengths of a frame, and one byte more.
    const sent = [50, 125, 126, 65_535, 65_536].map((bytes) => ({ type: 'x', text: 'ü🙂'.padEnd(bytes - 25, 'x') }));
    for (const message of sent)
      bundle.actors.send(joined.client_pid, { topic: 'ws.send', type: 'text', data: JSON.stringify(message) });
    for (const message of sent) expect(await next()).to.deep.equal(message);
    for (const text of ['', 'x', '{"a":"ü🙂"}', '\u0000']) socket.send(text);
    sendFragments(socket, ['in ', 'three ', 'pieces']);
    for (const data of ['', 'x', '{"a":"ü🙂"}', '\u0000', 'in three pieces'])
      expect(await handler.next()).to.deep.equal({ topic: 'ws.message', data });
    socket.close(1000);
    expect(await handler.next()).to.deep.equal({ topic: 'ws.leave', reason: 'closed with code 1000' });
    const other = await connect(bundle.stream, { token });
    await handler.next();
    other.socket.terminate();
    expect(await handler.next()).to.deep.equal({ topic: 'ws.leave', reason: 'closed with code 1006' });
  });

  it('welcomes, then answers exactly the objects whose type is ping', async () => {
    const bundle = shared();
    const { socket, next } = await connect(bundle.stream, { token: await bundle.token() });
    for (const text of [
      ...['', '{', '[]', 'null', '1e400', '"ping"', '{"type":"pong"}', '{"type":["ping"]}', '{"Type":"ping"}'],
      ...['{"__proto__":{"type":"ping"}}', '{"data":{"type":"ping"}}', '{"type":"ping","type":0}'],
    ])
      socket.send(text);
    socket.send(Buffer.from(PING));
    socket.send(Buffer.from([0xff, 0xfe]));
    socket.ping(PING);
    socket.pong(PING);
    const pings = ['{"\\u0074ype":"\\u0070ing"}', '{"type":0,"type":"ping"}', ' {"type" : "ping", "more": 1}', PING];
    for (const ping of pings) socket.send(ping);
    // An oversized message, which ends the connection after the others have been read.
    socket.send('x'.repeat(5000));
    const received: unknown[] = [];
    for (;;) {
      const message = await next().catch(() => undefined);
      if (message === undefined) break;
      received.push(message);
    }
    expect(received).to.deep.equal([{ type: 'welcome', user_id: 'user:demo' }, ...pings.map(() => ({ type: 'pong' }))]);
  });

  it('answers a ping that comes in one packet with the handshake', async () => {
    const bundle = shared();
    const raw = await connectRaw(bundle.listener.port);
    const frame = Buffer.from([0x81, 0x80 + PING.length, 0, 0, 0, 0, ...Buffer.from(PING)]);
    raw.socket.write(Buffer.concat([Buffer.from(head(...handshake('/ws/ticker', await bundle.token()))), frame]));
    expect(await raw.until(/"pong"/)).to.match(/^HTTP\/1\.1 101 [\s\S]*"welcome"[\s\S]*"pong"/);
  });

  it('takes messages of up to 4 KiB in up to 16 pieces, and closes on any other one', async () => {
    const bundle = shared();
    const { socket, nextOf } = await bundle.join();
    socket.send(PING.padEnd(4096, ' '));
    await nextOf('pong');
    sendFragments(socket, Array(15).fill('').concat(PING));
    await nextOf('pong');
    for (const [pieces, code] of [
      [[PING.padEnd(4097, ' ')], 1009],
      [Array(5).fill('x'.repeat(1000)), 1009],
      [Array(17).fill('x'), 1008],
    ] as const) {
      const client = await bundle.join();
      sendFragments(client.socket, [...pieces]);
      expect((await client.closed).code).to.equal(code);
    }
  });

  it('closes with 1002 on frames that break the protocol, and with 1007 on text that is not UTF-8', async () => {
    const bundle = await startTickerBundle();
    for (const [what, code, ...frame] of [
      ['not masked', 1002, 0x81, 1, 0x78],
      ['with reserved bits', 1002, 0xf1, 0x80, 0, 0, 0, 0],
      ['with an unknown opcode', 1002, 0x83, 0x80, 0, 0, 0, 0],
      ['not UTF-8', 1007, 0x81, 0x81, 0, 0, 0, 0, 0xff],
    ] as const) {
      const raw = await bundle.joinRaw();
      raw.socket.end(Buffer.from(frame));
      expect(closeCodeIn(await raw.ended), what).to.equal(code);
    }
    await bundle.empties();
    expect(Object.fromEntries(bundle.relay.metrics.closes)).to.deep.equal({ 1002: 3, 1007: 1 });
  });

  it('closes with 1011 if the handler fails, and tells those who watch it', async () => {
    for (const failing of ['ws.join', 'ws.message']) {
      const watched = Promise.withResolvers<unknown>();
      const receive: Actor['receive'] = ({ topic }) => {
        if (topic === failing) throw new Error('the handler fails');
      };
      const bundle = await startWith({ receive }, {}, (_, reason) => watched.resolve(reason));
      const client = await connect(bundle.stream, { token: await bundle.token() });
      client.socket.send('x');
      expect(await client.closed, failing).to.deep.equal({ code: 1011, reason: 'handler failed' });
      expect(await watched.promise).to.include({ message: 'the handler fails' });
      await bundle.empties();
    }
  });
});

describe('a client that sends too much', () => {
  it('is closed with 4029, whatever it sends, unnoticed by other clients', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const bundle = await startTickerBundle();
    const neighbour = await bundle.join();
    const messages = [PING, '}{', '', Buffer.alloc(10)];
    const sends = [
      ...messages.map((message) => (socket: WebSocket) => socket.send(message)),
      (socket: WebSocket) => socket.ping(),
      (socket: WebSocket) => socket.pong(),
    ];
    for (const send of [...sends, (socket: WebSocket, count: number) => sends[count % sends.length]?.(socket)]) {
      const client = await bundle.join();
      for (let count = 0; count < 1000; count++) send(client.socket, count);
      expect(await client.closed, String(send)).to.deep.equal({ code: 4029, reason: 'too many messages' });
      // The client has sent its close frame, but the server no longer reads from it.
      mock.timers.tick(5000);
      await until(() => bundle.relay.size === 1 && bundle.actors.size === 3);
      neighbour.socket.send(PING);
      await neighbour.nextOf('pong');
    }
    expect(neighbour.socket.readyState).to.equal(neighbour.socket.OPEN);
  });

  it('is answered as far as the bound goes, and then listened to no more', async () => {
    let handled = 0;
    const handler: Actor = { receive: ({ topic }) => void (topic === 'ws.message' && handled++) };
    const bundle = await startWith(handler, { maxMessagesPerSecond: 1 });
    const client = await connect(bundle.stream, { token: await bundle.token() });
    // A whole number, because a rounded sum of fractions can exceed the burst on its own.
    const now = Math.ceil(performance.now());
    mock.method(performance, 'now', () => now);
    for (let count = 0; count < 100; count++) client.socket.send(PING);
    expect([(await client.closed).code, handled]).to.deep.equal([4029, 2]);
  });

  it('is closed, and nothing else is, if more packets follow an invalid close frame', async () => {
    const bundle = await startTickerBundle();
    const raw = await bundle.joinRaw();
    const other = await bundle.join();
    const server = bundle.firstSocket();
    // A message, a close frame with an invalid code, and an unfinished frame, in packets that arrive in one turn.
    const pieces = ['82800102030401840102030460636265', '8883010203046061618a', '850102030460fd62626260'];
    const frames = Buffer.from(pieces.join(''), 'hex');
    for (let at = 0; at < frames.length; at += 7) server.emit('data', frames.subarray(at, at + 7));
    await raw.ended;
    other.socket.send(PING);
    expect(await other.nextOf('pong')).to.deep.equal({ type: 'pong' });
  });

  it('is closed once, however many frames its last packet holds, and cut off if it never closes', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const bundle = await startTickerBundle({ limits: { maxMessagesPerSecond: 1 } });
    const raw = await bundle.joinRaw();
    const end = mock.method(bundle.firstSocket(), 'end');
    raw.socket.allowHalfOpen = true;
    raw.socket.write(Buffer.concat(Array(1000).fill(Buffer.from([0x89, 0x80, 0, 0, 0, 0]))));
    // The client's side is closed only after the server has read the whole packet.
    await raw.until(/too many messages/);
    expect([end.mock.callCount(), bundle.sockets.size]).to.deep.equal([1, 1]);
    mock.timers.tick(5000);
    await bundle.empties();
  });

  it('is another one than a client that sends a hundred pings at once, and gets a pong for each, in order', async () => {
    const { socket, nextOf } = await (await startTickerBundle()).join();
    const pongs: string[] = [];
    socket.on('pong', (data) => pongs.push(data.toString()));
    const sent = Array.from({ length: 50 }, (_, index) => 'x'.repeat(index));
    for (const data of sent) {
      socket.send(PING);
      socket.ping(data);
    }
    for (const _ of sent) await nextOf('pong');
    await until(() => pongs.length === sent.length);
    expect([pongs, socket.readyState]).to.deep.equal([sent, socket.OPEN]);
  });

  it('in tiny packets is closed with 1008', async () => {
    const bundle = await startTickerBundle();
    const raw = await bundle.joinRaw();
    const server = bundle.firstSocket();
    raw.socket.setNoDelay().write(Buffer.from([0x81, 0xfe, 0x0f, 0xff, 0, 0, 0, 0]));
    for (let piece = 0; piece < 100 && !raw.socket.readableEnded; piece++) {
      const read = server.bytesRead;
      raw.socket.write('x');
      await until(() => server.bytesRead > read || server.destroyed || raw.socket.readableEnded);
    }
    expect(closeCodeIn(await raw.ended)).to.equal(1008);
  });
});

async function attemptHandshake(bundle: TickerBundle) {
  const raw = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
  const { status } = parseResponse(await raw.until(/\r\n\r\n/));
  return { raw, status };
}

describe('the connection slots of the relay', () => {
  for (const [limits, status, error] of [
    [{ maxConnections: 2 }, 503, 'too many connections'],
    [{ maxConnectionsPerAddress: 2 }, 429, 'too many connections from this address'],
    [{ maxConnections: 2, maxConnectionsPerAddress: 2 }, 429, 'too many connections from this address'],
  ] as const) {
    it(`are as many as ${JSON.stringify(limits)}: one more is refused with ${status}`, async () => {
      const bundle = await startTickerBundle({ limits });
      const [first, second] = [await attemptHandshake(bundle), await attemptHandshake(bundle)];
      expect([first.status, second.status]).to.deep.equal([101, 101]);
      const refused = await connect(bundle.stream, { token: await bundle.token() }).catch((reason) => reason);
      expect(refused).to.deep.include({ status, body: { error } });
      expect(refused.headers).to.include({ 'retry-after': '5', 'access-control-allow-origin': '*' });
      expect(bundle.actors.size).to.equal(5);
      expect(bundle.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
      first.raw.socket.destroy();
      await until(() => bundle.relay.slotsTaken === 1);
      expect((await attemptHandshake(bundle)).status).to.equal(101);
      expect((await attemptHandshake(bundle)).status).to.equal(status);
    });
  }

  it('are acquired by a handshake with a valid token, before its client has joined', async () => {
    const bundle = await startTickerBundle({ limits: { maxConnections: 1, timeouts: { handshakeMs: 3_600_000 } } });
    const malformed = handshake('/ws/ticker', await bundle.token()).filter((line) => !/^Sec-WebSocket-Key/.test(line));
    for (const [lines, refusal, taken] of [
      [handshake(), /authentication required/, 0],
      [malformed, /invalid WebSocket handshake/, 1],
    ] as const) {
      await (await connectHalfOpen(bundle.listener.port, ...lines)).until(refusal);
      expect([bundle.relay.slotsTaken, bundle.relay.size]).to.deep.equal([taken, 0]);
    }
    expect((await attemptHandshake(bundle)).status).to.equal(503);
  });

  const ways: Record<string, (socket: Socket) => unknown> = {
    'closes it': (socket) => socket.write(Buffer.from([0x88, 0x80, 0, 0, 0, 0])),
    'is gone': (socket) => socket.destroy(),
    'resets it': (socket) => socket.resetAndDestroy(),
    'ends it in a frame': (socket) => socket.end(Buffer.from([0x81, 0xfe, 0x00])),
  };
  it('are released once a client ends its connection in any way, or breaks a handshake off anywhere', async () => {
    const bundle = await startTickerBundle({ limits: { maxConnections: 1 } });
    for (const [how, leave] of Object.entries(ways)) {
      const { raw, status } = await attemptHandshake(bundle);
      expect(status, how).to.equal(101);
      leave(raw.socket);
      await bundle.empties();
    }
    const good = head(...handshake('/ws/ticker', await bundle.token()));
    for (let bytes = 0; bytes <= good.length; bytes += 50) {
      const { socket } = await connectRaw(bundle.listener.port);
      socket.write(good.slice(0, bytes));
      await until(() => bundle.sockets.size === 1);
      if (bytes % 100 === 0) socket.resetAndDestroy();
      else socket.destroy();
      await bundle.empties();
    }
  });
});

describe('the relay, when it closes', () => {
  it('tells every client with 1001, waits until all of them have left, and cuts off at the deadline those who do not answer', async () => {
    // Mocked, because the timeout of the closing handshake would also disconnect the clients.
    mock.timers.enable({ apis: ['setTimeout'] });
    const bundle = await startTickerBundle();
    const polite = await bundle.join();
    const rude = await bundle.joinRaw();
    const deadline = Promise.withResolvers<void>();
    let done = false;
    const closed = bundle.relay.close(deadline.promise).then(() => {
      done = true;
    });
    const closing = bundle.listener.close(never);
    expect(await polite.closed).to.deep.equal({ code: 1001, reason: 'server is shutting down' });
    await rude.until(/server is shutting down/);
    expect(done).to.equal(false);
    deadline.resolve();
    await Promise.all([closed, closing]);
    await rude.ended;
    await bundle.empties();
  });

  it('waits no longer than until all clients have left, may be closed twice, and takes no new clients', async () => {
    await (await startTickerBundle()).relay.close(never);
    const bundle = await startTickerBundle();
    const late = await connectRaw(bundle.listener.port);
    await bundle.join();
    await Promise.all([bundle.relay.close(never), bundle.relay.close(never)]);
    late.socket.write(head(...handshake('/ws/ticker', await bundle.token())));
    expect(await late.ended).to.equal('');
  });
});

describe('the close codes', () => {
  it('that tell a client not to connect again keep the browser client from it, and no others do', () => {
    const codes: CloseCode[] = Object.values(closeCodes);
    const final = codes.filter(({ reconnect }) => !reconnect);
    expect([...FINAL_CLOSE_CODES]).to.have.members(final.map(({ code }) => code));
  });
});

describe('the memory of a client', () => {
  it('holds nothing of the HTTP request, while the client is connected', async () => {
    const bundle = await startTickerBundle();
    const requests: WeakRef<IncomingMessage>[] = [];
    bundle.listener.server.on('upgrade', (request: IncomingMessage) => requests.push(new WeakRef(request)));
    const client = await bundle.join();
    expect(requests).to.have.lengthOf(1);
    await liveHeapBytes();
    expect(requests[0]?.deref()).to.equal(undefined);
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
  });

  it('is free once the client has left', async () => {
    const bundle = await startTickerBundle({ intervalMs: 1000 });
    const target = { host: '127.0.0.1', port: bundle.listener.port, path: '/ws/ticker', token: await bundle.token() };
    const visit = async (connections: number) => {
      const crowd = new Crowd({ target, connections, concurrency: 50 });
      await crowd.gather();
      expect(bundle.relay.size).to.equal(connections);
      crowd.disperse();
      await until(() => bundle.sockets.size === 0 && bundle.actors.size === 1);
    };
    const growths: number[] = [];
    for (let round = 0; round < 3; round++) {
      const before = await liveHeapBytes();
      await visit(300);
      growths.push((await liveHeapBytes()) - before);
    }
    // The smallest, because a leak grows in every round, and code that is compiled meanwhile is on the heap as well.
    // A connected client takes 3.8 kB here, and a few kB on its own side.
    expect(Math.min(...growths) / 300).to.be.below(300);
  });
});
