import { once } from 'node:events';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { type ClientTimeouts, clientTimeouts } from '../../main/ticker/connection.ts';
import { SOCKET_BUFFER } from '../../main/ticker/ws-relay.ts';
import { type Clock, systemClock } from '../../workers/shared/clock.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import type { StreamClient } from '../support/websocket.ts';

const PING = '{"type":"ping"}';
const PAD = 'x'.repeat(64 * 1024);

type JoinOptions = Partial<ClientTimeouts> & { autoPong?: boolean; clock?: Clock };

async function join({ autoPong = true, clock = systemClock, ...timeouts }: JoinOptions = {}) {
  // Timers are mocked, so the relay checks its clients only when the test advances them.
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const limits = { timeouts: { slowMs: 3_600_000, pingMs: 3_600_000, ...timeouts }, maxMessagesPerSecond: 1e6 };
  const bundle = await startTickerBundle({ limits, clock });
  const client = await bundle.join({ autoPong });
  const subscribed = await bundle.ticker.next();
  if (subscribed.topic !== 'subscribe') throw new Error('not subscribed');
  const server = bundle.firstSocket();
  let n = 0;
  const tick = () => {
    const data = JSON.stringify({ type: 'ticker', n: ++n, pad: PAD });
    bundle.relay.broadcast([subscribed.client_pid], { topic: 'ws.send', type: 'text', data });
    return n;
  };
  /** Sends ticks until the socket buffers of the client, which does not read, are full. */
  const fill = async () => {
    client.socket.pause();
    while (server.writableLength === 0) {
      tick();
      await setImmediate();
    }
  };
  /** Waits for the next ping, which is due a second later. */
  const pinged = async () => {
    const ping = once(client.socket, 'ping');
    mock.timers.tick(1000);
    await ping;
  };
  return { ...bundle, client, server, tick, fill, pinged };
}

describe('a client that reads too slowly', () => {
  it('skips ticks and gets the newest one when it reads again', async () => {
    const { client, server, tick, relay, fill } = await join();
    await fill();
    const filled = tick();
    const waiting = server.writableLength;
    let newest = 0;
    for (let count = 0; count < 100; count++) {
      newest = tick();
      if (count % 10 === 0) await setImmediate();
    }
    expect(server.writableLength).to.equal(waiting);
    expect(waiting).to.be.at.most(2 * (PAD.length + SOCKET_BUFFER));
    client.socket.resume();
    const seen: number[] = [];
    while (seen.at(-1) !== newest) seen.push((await client.nextOf('ticker')).n);
    expect(seen).to.deep.equal([...new Set(seen)].sort((a, b) => a - b));
    expect(seen.filter((n) => n > filled)).to.deep.equal([newest]);
    expect(relay.metrics.framesSkipped).to.equal(newest - seen.length);
    const after = tick();
    expect((await client.nextOf('ticker')).n).to.equal(after);
    server.cork();
    for (let count = 0; count < 2; count++) tick();
    server.prependOnceListener('drain', () => server.cork());
    const drained = once(server, 'drain');
    server.uncork();
    await drained;
    expect(server.isPaused(), 'while the newest tick makes the client slow again').to.equal(true);
    server.uncork();
    client.socket.send(PING);
    const next = [await client.next(), await client.next(), await client.next()];
    expect(next.map(({ n, type }) => n ?? type)).to.deep.equal([after + 1, after + 2, 'pong']);
  });

  for (const [what, ping] of [
    ['messages', ({ socket }: StreamClient) => socket.send(PING.padEnd(125))],
    ['pings of the protocol', ({ socket }: StreamClient) => socket.ping('x'.repeat(125))],
  ] as const) {
    it(`can ping without end, makes no more wait than a few KiB, and is read from when it reads again: ${what}`, async () => {
      const { client, server } = await join();
      // Keeps everything that is written in the server's own buffer, as a client does that does not read.
      server.cork();
      let most = 0;
      let rounds = 0;
      // The client's pings stay buffered once the server has stopped reading.
      await until(() => {
        most = Math.max(most, server.writableLength);
        if (server.isPaused() && server.writableLength > 0 && client.socket.bufferedAmount > 0) rounds++;
        for (let count = 0; count < 2000; count++) ping(client);
        return rounds === 2;
      });
      expect(most).to.be.within(1, SOCKET_BUFFER + 64 * 1024);
      expect(server.destroyed).to.equal(false);
      const resumed = once(server, 'resume');
      server.uncork();
      await resumed;
    });
  }

  it('is closed with 4008 when it is stuck for too long, without a delay when it begins to read', async () => {
    const { client, server, ticker, sockets, fill } = await join({ slowMs: 0 });
    await fill();
    const read = server.bytesRead;
    for (let count = 0; count < 20; count++) client.socket.ping('x'.repeat(125));
    mock.timers.tick(1000);
    await until(() => server.bytesRead >= read + 20 * (6 + 125));
    client.socket.resume();
    expect(await client.closed).to.deep.equal({ code: 4008, reason: 'client reads too slowly' });
    expect(await ticker.next()).to.include({ topic: 'unsubscribe' });
    await until(() => sockets.size === 0);
  });

  it('is cut off when it does not even read that it is closed', async () => {
    const { sockets, empties, fill } = await join({ slowMs: 0 });
    await fill();
    mock.timers.tick(1000);
    expect(sockets.size).to.equal(1);
    mock.timers.tick(5000);
    await empties();
  });

  it('stays as long as it is not stuck for too long, whatever its silence', async () => {
    const { client, tick, fill } = await join({ pingMs: 0 });
    await fill();
    for (let seconds = 0; seconds < 10; seconds++) mock.timers.tick(1000);
    const newest = tick();
    client.socket.resume();
    while ((await client.nextOf('ticker')).n !== newest);
  });
});

describe('a client that is pinged', () => {
  it('stays when it answers', async () => {
    const { server, pinged } = await join({ pingMs: 0 });
    for (let round = 0; round < 3; round++) {
      const read = server.bytesRead;
      await pinged();
      await until(() => server.bytesRead > read);
      await setImmediate();
    }
    expect(server.destroyed).to.equal(false);
  });

  for (const [what, send] of [
    ['is silent', () => {}],
    ['sends messages', ({ socket }: StreamClient) => socket.send(PING)],
    ['pings by itself', ({ socket }: StreamClient) => socket.ping()],
    ['sends pongs without having read the ping', ({ socket }: StreamClient) => socket.pong(Buffer.alloc(8))],
  ] as const) {
    it(`is cut off when it does not answer, though it ${what}`, async () => {
      const { client, server, ticker, pinged } = await join({ pingMs: 0, autoPong: false });
      await pinged();
      const read = server.bytesRead;
      send(client);
      if (what !== 'is silent') await until(() => server.bytesRead > read);
      await setImmediate();
      mock.timers.tick(1000);
      expect((await client.closed).code).to.equal(1006);
      expect(await ticker.next()).to.include({ topic: 'unsubscribe' });
    });
  }

  it('is not so before its time, even if the clock is set forward', async () => {
    let jumped = 0;
    expect(clientTimeouts).to.deep.equal({ handshakeMs: 10_000, slowMs: 30_000, pingMs: 30_000 });
    const { client } = await join({ pingMs: 60_000, clock: { ...systemClock, now: () => systemClock.now() + jumped } });
    let pings = 0;
    client.socket.on('ping', () => pings++);
    jumped = 60_000;
    for (let second = 0; second < 10; second++) mock.timers.tick(1000);
    client.socket.send(PING);
    await client.nextOf('pong');
    expect(pings).to.equal(0);
  });

  it('has the whole time again once it reads, when it was slow', async () => {
    const pingMs = 60_000;
    const real = performance.now.bind(performance);
    let shift = 0;
    mock.method(performance, 'now', () => real() + shift);
    const { client, server, fill, pinged } = await join({ pingMs, autoPong: false });
    shift += pingMs;
    await pinged();
    mock.timers.tick(1000);
    expect(server.destroyed, 'a second after the ping').to.equal(false);
    await fill();
    shift += pingMs;
    const drained = once(server, 'drain');
    server.once('drain', () => mock.timers.tick(1000));
    client.socket.resume();
    await drained;
    expect(server.destroyed).to.equal(false);
  });
});
