import { once } from 'node:events';
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { mock } from 'node:test';
import { expect } from 'chai';
import fc from 'fast-check';
import { defaults } from '../../main/config.ts';
import { ConnectionLimiter, shareDescriptors } from '../../main/http/connection-limiter.ts';
import type { Listener } from '../../main/http/listener.ts';
import { connectHalfOpen, connectRaw, handshake } from '../support/raw-connection.ts';
import { fine, serve, statusFrom } from '../support/server.ts';
import { until } from '../support/until.ts';

/** Opens WebSockets, which are released from the bound on plain connections. */
async function openWebSockets({ server, port, release }: Listener, count: number): Promise<void> {
  let upgrades = 0;
  server.on('upgrade', (_request, socket) => {
    upgrades++;
    for (let times = 0; times < 2; times++) release(socket);
  });
  for (let opened = 0; opened < count; opened++) await connectRaw(port, ...handshake('/'));
  await until(() => upgrades === count);
}

describe('plain connections', () => {
  it('of an address or IPv6 network, and of all, are bounded by what WebSockets leave free, until one closes', async () => {
    const timeouts = { headers: 3_600_000, request: 3_600_000, keepAlive: 3_600_000 };
    const { listener, sockets } = await serve(fine, { maxConnections: 8, timeouts });
    await openWebSockets(listener, 5);
    const raws = [await connectRaw(listener.port), await connectRaw(listener.port)];
    for (let count = 0; count < 4; count++) {
      await until(() => sockets.size === 7);
      raws.shift()?.socket.destroy();
      await until(() => sockets.size === 6);
      raws.push(await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x'));
      await raws.at(-1)?.until(/fine$/);
    }
    expect(await (await connectRaw(listener.port)).ended).to.equal('');
    expect(await statusFrom('127.0.0.2', listener.port)).to.equal(200);
    await until(() => sockets.size === 7);
    connect({ host: '127.0.0.1', port: listener.port, localAddress: '127.0.0.2' }).on('error', () => {});
    await until(() => sockets.size === 8);
    expect(await statusFrom('127.0.0.4', listener.port).catch(({ code }) => code)).to.equal('ECONNRESET');
    for (const { socket } of raws) socket.destroy();
    await until(() => sockets.size === 6);
    const hosts = [1, 2, 3].map((host) => Object.assign(new PassThrough(), { remoteAddress: `2001:db8::${host}` }));
    for (const host of hosts) listener.server.emit('connection', host);
    expect(hosts.map(({ destroyed }) => destroyed)).to.deep.equal([false, false, true]);
  });

  it('leave clients less time as they run short, all of it when they are free again, and no less because of WebSockets, unless these hold every connection', async () => {
    const timeouts = { check: 3_600_000 };
    const { listener, sockets } = await serve(fine, { maxConnections: 10, trustProxy: 1, timeouts });
    const { server } = listener;
    const times = () => [server.headersTimeout, server.requestTimeout];
    const raws = [];
    mock.timers.enable({ apis: ['setTimeout'] });
    for (const [index, share] of [1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.1].entries()) {
      raws.push(await connectHalfOpen(listener.port));
      await until(() => sockets.size === index + 1);
      expect(times(), String(index)).to.deep.equal([Math.round(10_000 * share), Math.round(30_000 * share)]);
    }
    raws[0]?.socket.write('garbage\r\n\r\n');
    await raws[0]?.until(/ 400 /);
    mock.timers.tick(500);
    await until(() => sockets.size === 9);
    for (const { socket } of raws) socket.destroy();
    await until(() => sockets.size === 0);
    expect(times()).to.deep.equal([10_000, 30_000]);
    for (const [maxConnections, webSockets, timeouts] of [
      [10, 8, [10_000, 30_000]],
      [2, 2, [1_000, 3_000]],
    ] as const) {
      const { listener } = await serve(fine, { maxConnections, trustProxy: 1 });
      await openWebSockets(listener, webSockets);
      expect([listener.server.headersTimeout, listener.server.requestTimeout]).to.deep.equal(timeouts);
    }
  });

  it('have one slot each, however often it is acquired, which is free once they are closed', async () => {
    const limiter = new ConnectionLimiter({ maxConnections: 9, maxConnectionsPerAddress: 1 });
    const socket = new PassThrough();
    // A connection may carry several event streams, one after the other.
    for (let time = 0; time < 2; time++) limiter.acquire(socket, 'a');
    expect([limiter.taken, limiter.refusal('a')]).to.deep.equal([1, 'tooManyConnectionsFromAddress']);
    await once(socket.destroy(), 'close');
    limiter.acquire(socket, 'a');
    expect([limiter.taken, limiter.refusal('a')]).to.deep.equal([0, undefined]);
  });
});

describe('the descriptors', () => {
  const DEFAULT = defaults.tasks.concurrency;

  it('are shared out so that the process has its own, and each listener some, whatever the limit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 800, max: 2 ** 31 }), fc.integer({ min: 1, max: 64 }), (limit, taskThreads) => {
        const { ticker, webSockets, tasks, admin } = shareDescriptors(limit, taskThreads);
        expect(limit - ticker - tasks - admin).to.be.at.least(80 + 10 * taskThreads);
        expect(webSockets).to.be.lessThan(ticker);
        expect(tasks).to.be.lessThan(ticker);
        expect(Math.min(webSockets, tasks, admin)).to.be.greaterThan(0);
      }),
    );
  });

  it('are refused where they leave nothing for connections, and suffice for 18,000 WebSockets with a limit of 20,000, and for no endless number without a limit', () => {
    const { ticker, tasks, admin } = shareDescriptors(132, DEFAULT);
    expect(ticker + tasks + admin).to.equal(32);
    expect(Math.min(ticker, tasks, admin)).to.be.greaterThan(0);
    expect(() => shareDescriptors(131, DEFAULT)).to.throw('the limit of open files is 131: raise it to at least 132');
    expect(shareDescriptors(20_000, DEFAULT).webSockets).to.be.at.least(18_000);
    const { openFiles: _, ...unlimited } = shareDescriptors(Number.POSITIVE_INFINITY, DEFAULT);
    expect(shareDescriptors(1_048_576, DEFAULT)).to.deep.include(unlimited);
  });
});
