import { mock } from 'node:test';
import { expect } from 'chai';
import type { WebSocket } from 'ws';
import type { Actor } from '../../main/ticker/pid-registry.ts';
import {
  connectHalfOpen,
  connectRaw,
  handshake,
  head,
  parseResponse,
  type RawConnection,
} from '../support/raw-connection.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect, Refused } from '../support/websocket.ts';

const PING = '{"type":"ping"}';

describe('a client that sends too much', () => {
  it('is closed with 4029, whatever it sends, unnoticed by other clients', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const bundle = await startTickerBundle();
    const neighbour = await bundle.join();
    const sends: ((socket: WebSocket) => void)[] = [
      (socket) => socket.send(PING),
      (socket) => socket.send('}{'),
      (socket) => socket.send(''),
      (socket) => socket.send(Buffer.alloc(10)),
      (socket) => socket.ping(),
      (socket) => socket.pong(),
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
    const bundle: TickerBundle = await startTickerBundle({
      limits: { maxMessagesPerSecond: 1 },
      replace: () => ({ createHandler: () => bundle.actors.spawn('handler', () => handler) }),
    });
    const client = await connect(bundle.stream, { token: await bundle.token() });
    // A whole number, because a rounded sum of fractions can exceed the burst on its own.
    const now = Math.ceil(performance.now());
    mock.method(performance, 'now', () => now);
    for (let count = 0; count < 100; count++) client.socket.send(PING);
    expect((await client.closed).code).to.equal(4029);
    expect(handled).to.equal(2);
  });

  it('is closed, and nothing else is, if more packets follow an invalid close frame', async () => {
    const bundle = await startTickerBundle();
    const raw = await bundle.joinRaw();
    const other = await bundle.join();
    const server = bundle.firstSocket();
    // A message, a close frame with an invalid code, and an unfinished frame, in packets that arrive in one turn.
    const frames = Buffer.from(
      '82800102030401840102030460636265' + '8883010203046061618a' + '850102030460fd62626260',
      'hex',
    );
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
    const last = Buffer.from((await raw.ended).slice(-4), 'latin1');
    expect([last[0], last.readUInt16BE(2)]).to.deep.equal([0x88, 1008]);
  });
});

/** Attempts a handshake. Returns its status. */
async function attemptHandshake(bundle: TickerBundle): Promise<{ raw: RawConnection; status: number }> {
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
      expect(refused).to.be.instanceOf(Refused).and.deep.include({ status, body: { error } });
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

  const way: Record<string, (raw: RawConnection, bundle: TickerBundle) => unknown> = {
    'closes it': ({ socket }) => socket.write(Buffer.from([0x88, 0x80, 0, 0, 0, 0])),
    'is gone': ({ socket }) => socket.destroy(),
    'resets it': ({ socket }) => socket.resetAndDestroy(),
    'breaks the protocol': ({ socket }) => socket.end(Buffer.from([0xff, 0xff])),
    'ends it in a frame': ({ socket }) => socket.end(Buffer.from([0x81, 0xfe, 0x00])),
    'has a handler that fails': async ({ socket, until }, { actors }) => {
      const [, pid = ''] = /"target_pid":"([^"]+)"/.exec(await until(/target_pid/)) ?? [];
      actors.exit(pid, new Error('fails'));
      socket.end();
    },
  };
  it(`are released once the client of a connection ${Object.keys(way).join(', ')}, or breaks a handshake off anywhere`, async () => {
    const bundle = await startTickerBundle({ limits: { maxConnections: 1 } });
    for (const [how, leave] of Object.entries(way)) {
      const { raw, status } = await attemptHandshake(bundle);
      expect(status, how).to.equal(101);
      await leave(raw, bundle);
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
