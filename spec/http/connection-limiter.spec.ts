import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { ConnectionLimiter } from '../../main/http/connection-limiter.ts';
import type { Listener } from '../../main/http/listener.ts';
import { connectRaw, handshake, parseResponse } from '../support/raw-connection.ts';
import { fine, serve, statusFrom } from '../support/server.ts';
import { until } from '../support/until.ts';

const closed = (socket: PassThrough) => new Promise((resolve) => socket.destroy().once('close', resolve));

describe('the connection limiter', () => {
  it('gives no slot to a closed socket, and frees that of a destroyed one once it is closed', async () => {
    const limiter = new ConnectionLimiter({ maxConnections: 1, maxConnectionsPerAddress: 1 });
    const gone = new PassThrough();
    await closed(gone);
    limiter.acquire(gone, 'a');
    expect([limiter.taken, limiter.addresses]).to.deep.equal([0, 0]);
    const going = new PassThrough({ destroy: (_error, done) => void setImmediate(done) });
    const ended = closed(going);
    limiter.acquire(going, 'a');
    expect(limiter.taken).to.equal(1);
    await ended;
    expect([limiter.taken, limiter.addresses]).to.deep.equal([0, 0]);
  });
});

/** Opens WebSockets, which are released from the bound on plain connections. */
async function openWebSockets({ server, port, release }: Listener, count: number): Promise<void> {
  let upgrades = 0;
  server.on('upgrade', (_request, socket) => {
    upgrades++;
    release(socket);
  });
  for (let opened = 0; opened < count; opened++) await connectRaw(port, ...handshake('/'));
  await until(() => upgrades === count);
}

describe('plain connections', () => {
  it('are bounded by address: one more is closed at once, others are served', async () => {
    const { listener, sockets } = await serve(fine, { maxConnections: 4 });
    const half = [await connectRaw(listener.port), await connectRaw(listener.port)];
    for (const { socket } of half) socket.write('POST / HTTP/1.1\r\nHost');
    await until(() => sockets.size === 2);
    const third = await connectRaw(listener.port);
    expect(await third.ended).to.equal('');
    expect(await statusFrom('127.0.0.2', listener.port)).to.equal(200);
    half[0]?.socket.destroy();
    await until(() => sockets.size === 1);
    const next = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    await next.until(/fine$/);
  });

  it('of an address are bounded by what WebSockets leave free', async () => {
    const { listener } = await serve(fine, { maxConnections: 8 });
    await openWebSockets(listener, 4);
    for (let count = 0; count < 2; count++) {
      await (await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x')).until(/fine$/);
    }
    expect(await (await connectRaw(listener.port)).ended).to.equal('');
    expect(await statusFrom('127.0.0.2', listener.port)).to.equal(200);
  });

  it('include a WebSocket until it is released', async () => {
    const { listener } = await serve(fine, { maxConnections: 2 });
    const upgraded = once(listener.server, 'upgrade');
    await connectRaw(listener.port, ...handshake('/'));
    const [, socket] = await upgraded;
    expect(await (await connectRaw(listener.port)).ended).to.equal('');
    listener.release(socket);
    listener.release(socket);
    const next = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    await next.until(/fine$/);
    expect(await (await connectRaw(listener.port)).ended).to.equal('');
  });

  it('leave clients less time as they run short, and all of it when they are free again', async () => {
    const { listener, sockets } = await serve(fine, { maxConnections: 10, trustProxy: 1 });
    const { server } = listener;
    const times = () => [server.headersTimeout, server.requestTimeout];
    const raws = [];
    const expected = [1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.1];
    for (const [index, share] of expected.entries()) {
      raws.push(await connectRaw(listener.port));
      await until(() => sockets.size === index + 1);
      expect(times(), String(index)).to.deep.equal([Math.round(10_000 * share), Math.round(30_000 * share)]);
    }
    for (const { socket } of raws) socket.destroy();
    await until(() => sockets.size === 0);
    expect(times()).to.deep.equal([10_000, 30_000]);
  });

  it('that are half-sent are answered 408 early when there is no free connection', async () => {
    const timeouts = { headers: 20_000, request: 60_000, check: 50, closing: 5_000 };
    const { listener } = await serve(fine, { maxConnections: 10, trustProxy: 1, timeouts });
    const raws = [];
    for (let count = 0; count < 10; count++) {
      const raw = await connectRaw(listener.port);
      raw.socket.write('GET / HTTP/1.1\r\nHost');
      raws.push(raw);
    }
    const full = performance.now();
    // Only the first one is early: once it is closed, the others have their usual timeout.
    expect(parseResponse(await Promise.race(raws.map(({ ended }) => ended))).status).to.equal(408);
    expect(performance.now() - full).to.be.below(19_000);
    for (const { socket } of raws) socket.destroy();
  });

  it('are not short because of WebSockets, unless these hold every connection', async () => {
    for (const [maxConnections, webSockets, timeouts] of [
      [10, 8, [10_000, 30_000]],
      [2, 2, [1_000, 3_000]],
    ] as const) {
      const { listener } = await serve(fine, { maxConnections, trustProxy: 1 });
      await openWebSockets(listener, webSockets);
      expect([listener.server.headersTimeout, listener.server.requestTimeout]).to.deep.equal(timeouts);
    }
  });
});
