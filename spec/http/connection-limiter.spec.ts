import { connect } from 'node:net';
import { expect } from 'chai';
import fc from 'fast-check';
import { defaults } from '../../main/config.ts';
import { shareDescriptors } from '../../main/http/connection-limiter.ts';
import type { Listener } from '../../main/http/listener.ts';
import { connectRaw, handshake } from '../support/raw-connection.ts';
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
  it('of an address, and of all, are bounded by what WebSockets leave free, until one closes', async () => {
    const timeouts = { headers: 3_600_000, request: 3_600_000, keepAlive: 3_600_000 };
    const { listener, sockets } = await serve(fine, { maxConnections: 8, timeouts });
    await openWebSockets(listener, 4);
    const raws = [await connectRaw(listener.port), await connectRaw(listener.port)];
    for (let count = 0; count < 4; count++) {
      await until(() => sockets.size === 6);
      raws.shift()?.socket.destroy();
      await until(() => sockets.size === 5);
      raws.push(await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x'));
      await raws.at(-1)?.until(/fine$/);
    }
    expect(await (await connectRaw(listener.port)).ended).to.equal('');
    expect(await statusFrom('127.0.0.2', listener.port)).to.equal(200);
    for (const localAddress of ['127.0.0.2', '127.0.0.3'])
      connect({ host: '127.0.0.1', port: listener.port, localAddress }).on('error', () => {});
    await until(() => sockets.size === 8);
    expect(await statusFrom('127.0.0.4', listener.port).catch(({ code }) => code)).to.equal('ECONNRESET');
  });

  it('leave clients less time as they run short, and all of it when they are free again', async () => {
    const { listener, sockets } = await serve(fine, { maxConnections: 10, trustProxy: 1 });
    const { server } = listener;
    const times = () => [server.headersTimeout, server.requestTimeout];
    const raws = [];
    for (const [index, share] of [1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.1].entries()) {
      raws.push(await connectRaw(listener.port));
      await until(() => sockets.size === index + 1);
      expect(times(), String(index)).to.deep.equal([Math.round(10_000 * share), Math.round(30_000 * share)]);
    }
    for (const { socket } of raws) socket.destroy();
    await until(() => sockets.size === 0);
    expect(times()).to.deep.equal([10_000, 30_000]);
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

  it('are refused where they leave nothing for connections', () => {
    const { ticker, tasks, admin } = shareDescriptors(132, DEFAULT);
    expect(ticker + tasks + admin).to.equal(32);
    expect(Math.min(ticker, tasks, admin)).to.be.greaterThan(0);
    expect(() => shareDescriptors(131, DEFAULT)).to.throw('the limit of open files is 131: raise it to at least 132');
  });

  it('suffice for 18,000 WebSockets with a limit of 20,000, and for no endless number without a limit', () => {
    expect(shareDescriptors(20_000, DEFAULT).webSockets).to.be.at.least(18_000);
    const { openFiles: _, ...unlimited } = shareDescriptors(Number.POSITIVE_INFINITY, DEFAULT);
    expect(shareDescriptors(1_048_576, DEFAULT)).to.deep.include(unlimited);
  });
});
