import type { IncomingMessage } from 'node:http';
import { expect } from 'chai';
import { Crowd } from '../load/crowd.ts';
import { liveHeapBytes } from '../support/heap.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';

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
    let before = await liveHeapBytes();
    for (let round = 0; round < 3; round++) {
      await visit(300);
      const after = await liveHeapBytes();
      growths.push(after - before);
      before = after;
    }
    // The smallest, because a leak grows in every round, and code that is compiled meanwhile is on the heap as well.
    // A connected client takes 3.8 kB here, and a few kB on its own side.
    expect(Math.min(...growths) / 300).to.be.below(300);
  });
});
