import { expect } from 'chai';
import type { WebSocket } from 'ws';
import { closeCodes } from '../../main/ticker/close-codes.ts';
import type { Actor, LifecycleMessage } from '../../main/ticker/pid-registry.ts';
import { connectRaw, handshake } from '../support/raw-connection.ts';
import { Recorder } from '../support/recorder.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

const PING = '{"type":"ping"}';

/** Connects a client and waits for its subscription. */
async function join(bundle: TickerBundle) {
  const client = await connect(bundle.stream, { token: await bundle.token() });
  await client.nextOf('welcome');
  return client;
}

/** Starts service A with `handler` in place of every connection's handler. */
async function startWith(handler: Actor): Promise<TickerBundle> {
  const bundle = await startTickerBundle({
    replace: () => ({ createHandler: () => bundle.actors.spawn('handler', () => handler) }),
  });
  return bundle;
}

/** Sends one text message in pieces. */
function sendFragments(socket: WebSocket, pieces: string[]): void {
  for (const [index, piece] of pieces.entries()) socket.send(piece, { fin: index === pieces.length - 1 });
}

describe('the relay', () => {
  it('passes join, messages and leave on to the handler, and what it sends to the client, in order', async () => {
    const handler = new Recorder();
    const bundle = await startWith(handler);
    const { socket, next } = await connect(bundle.stream, { token: await bundle.token() });
    const joined = (await handler.next()) as { topic: string; client_pid: string };
    expect(Object.keys(joined)).to.have.members(['topic', 'client_pid']);
    expect(joined.topic).to.equal('ws.join');
    for (const n of [1, 2, 3])
      bundle.actors.send(joined.client_pid, { topic: 'ws.send', type: 'text', data: `{"type":"x","n":${n}}` });
    for (const n of [1, 2, 3]) expect(await next()).to.deep.equal({ type: 'x', n });
    for (const text of ['', 'x', '{"a":"ü🙂"}', '\u0000']) socket.send(text);
    sendFragments(socket, ['in ', 'three ', 'pieces']);
    for (const data of ['', 'x', '{"a":"ü🙂"}', '\u0000', 'in three pieces'])
      expect(await handler.next()).to.deep.equal({ topic: 'ws.message', data });
    socket.close(1000);
    expect(await handler.next()).to.deep.equal({ topic: 'ws.leave', reason: 'closed with code 1000' });
  });

  it('welcomes, then answers pings and nothing else', async () => {
    const bundle = await startTickerBundle();
    const { socket, next } = await connect(bundle.stream, { token: await bundle.token() });
    for (const text of ['', '{', '[]', 'null', '1e400', '{"type":"pong"}', '{"type":["ping"]}']) socket.send(text);
    socket.send(Buffer.from(PING));
    socket.send(Buffer.from([0xff, 0xfe]));
    socket.ping(PING);
    socket.pong(PING);
    for (const ping of ['{"\\u0074ype":"\\u0070ing"}', PING]) socket.send(ping);
    // An oversized message, which ends the connection after the others have been read.
    socket.send('x'.repeat(5000));
    const received: unknown[] = [];
    for (;;) {
      const message = await next().catch(() => undefined);
      if (message === undefined) break;
      received.push(message);
    }
    expect(received).to.deep.equal([{ type: 'welcome', user_id: 'user:demo' }, { type: 'pong' }, { type: 'pong' }]);
  });

  it('answers a ping that comes in one packet with the handshake', async () => {
    const bundle = await startTickerBundle();
    const raw = await connectRaw(bundle.listener.port);
    const frame = Buffer.concat([Buffer.from([0x81, 0x80 + PING.length, 0, 0, 0, 0]), Buffer.from(PING)]);
    const opening = `${handshake('/ws/ticker', await bundle.token()).join('\r\n')}\r\n\r\n`;
    raw.socket.write(Buffer.concat([Buffer.from(opening), frame]));
    expect(await raw.until(/"pong"/)).to.match(/^HTTP\/1\.1 101 [\s\S]*"welcome"[\s\S]*"pong"/);
  });

  it('tells the ticker of the end, and keeps nothing of a client that leaves', async () => {
    const bundle = await startTickerBundle();
    for (const leave of [(socket: WebSocket) => socket.close(), (socket: WebSocket) => socket.terminate()]) {
      const client = await join(bundle);
      expect(bundle.relay.size).to.equal(1);
      expect(bundle.actors.size).to.equal(3);
      const subscribed = await bundle.ticker.next();
      if (subscribed.topic !== 'subscribe') throw new Error(subscribed.topic);
      leave(client.socket);
      const { handler_pid } = subscribed;
      expect(await bundle.ticker.next()).to.deep.equal({ topic: 'unsubscribe', handler_pid });
      await until(() => bundle.actors.size === 1);
      expect(bundle.relay.size).to.equal(0);
    }
    await until(() => bundle.sockets.size === 0);
  });

  it('tells the handler of a client that vanishes', async () => {
    const handler = new Recorder();
    const bundle = await startWith(handler);
    const { socket } = await connect(bundle.stream, { token: await bundle.token() });
    await handler.next();
    socket.terminate();
    expect(await handler.next()).to.deep.equal({ topic: 'ws.leave', reason: 'closed with code 1006' });
  });

  it('takes messages of up to 4 KiB and closes with 1009 past that', async () => {
    const bundle = await startTickerBundle();
    const client = await join(bundle);
    const padded = (bytes: number) => PING.padEnd(bytes, ' ');
    client.socket.send(padded(4096));
    await client.nextOf('pong');
    client.socket.send(padded(4097));
    expect((await client.closed).code).to.equal(1009);
  });

  it('closes with 1009 on a large message in pieces', async () => {
    const client = await join(await startTickerBundle());
    sendFragments(
      client.socket,
      Array.from({ length: 5 }, () => 'x'.repeat(1000)),
    );
    expect((await client.closed).code).to.equal(1009);
  });

  it('closes on a message in too many pieces, with a code that is documented', async () => {
    const bundle = await startTickerBundle();
    const client = await join(bundle);
    sendFragments(client.socket, Array(15).fill('').concat(PING));
    await client.nextOf('pong');
    sendFragments(client.socket, Array(17).fill('x'));
    const { code } = await client.closed;
    expect(code).to.equal(1008);
    expect(Object.values(closeCodes).map((each) => each.code)).to.include(code);
  });

  it('closes with 1002 on frames that break the protocol, and with 1007 on text that is not UTF-8', async () => {
    const bundle = await startTickerBundle();
    const unmasked = [0x81, 1, 0x78];
    const reserved = [0xf1, 0x80, 0, 0, 0, 0];
    const opcode = [0x83, 0x80, 0, 0, 0, 0];
    const notUtf8 = [0x81, 0x81, 0, 0, 0, 0, 0xff];
    for (const [frame, code] of [
      [unmasked, 1002],
      [reserved, 1002],
      [opcode, 1002],
      [notUtf8, 1007],
    ] as const) {
      const raw = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
      await raw.until(/"welcome"[^}]*}/);
      raw.socket.write(Buffer.from(frame));
      raw.socket.end();
      const last = Buffer.from((await raw.ended).slice(-4), 'latin1');
      expect([last[0], last.readUInt16BE(2)]).to.deep.equal([0x88, code]);
    }
    await until(() => bundle.actors.size === 1);
  });

  for (const topic of ['ws.join', 'ws.message'] as const) {
    it(`closes with 1011 when the handler fails on ${topic}, and tells those who watch it`, async () => {
      const watched = Promise.withResolvers<unknown>();
      const failing: Actor = {
        receive(message: LifecycleMessage) {
          if (message.topic === topic) throw new Error('the handler fails');
        },
      };
      const bundle = await startTickerBundle({
        replace: () => ({
          createHandler() {
            const pid = bundle.actors.spawn('handler', () => failing);
            bundle.actors.monitor(pid, { onExit: (_pid, reason) => watched.resolve(reason) });
            return pid;
          },
        }),
      });
      const client = await connect(bundle.stream, { token: await bundle.token() });
      client.socket.send('x');
      expect(await client.closed).to.deep.equal({ code: 1011, reason: 'handler failed' });
      expect(await watched.promise).to.include({ message: 'the handler fails' });
      await until(() => bundle.actors.size === 1);
      expect(bundle.relay.size).to.equal(0);
    });
  }

  it('sends a broadcast to those it is for only', async () => {
    const bundle = await startTickerBundle();
    const clients = await Promise.all([join(bundle), join(bundle), join(bundle)]);
    const pids = clientsOf(bundle);
    expect(pids).to.have.lengthOf(3);
    const say = (to: string[], n: number) =>
      bundle.relay.broadcast(to, { topic: 'ws.send', type: 'text', data: `{"type":"x","n":${n}}` });
    say([...pids.slice(0, 2), 'client:none'], 1);
    say(pids, 2);
    const first = await Promise.all(clients.map((client) => client.next()));
    expect(first.map(({ n }) => n).sort()).to.deep.equal([1, 1, 2]);
  });
});

/** Returns the addresses of the subscribed clients. */
function clientsOf({ ticker }: TickerBundle): string[] {
  return ticker.received.flatMap((message) => (message.topic === 'subscribe' ? [message.client_pid] : []));
}
