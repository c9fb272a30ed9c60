import { expect } from 'chai';
import { closeCodes } from '../../main/ticker/close-codes.ts';
import { SOCKET_BUFFER } from '../../main/ticker/ws-relay.ts';
import { type CrowdReport, gather } from '../support/crowd.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { eventually, until } from '../support/until.ts';

const FOREVER_MS = 3_600_000;

/** Asserts that every reader received every tick and nothing else. */
function expectEveryTick(report: CrowdReport): void {
  expect(report).to.deep.include({ lacking: 0, missed: 0 });
  expect(Object.keys(report.types)).to.have.members(['welcome', 'ticker']);
}

describe('clients that never read', () => {
  it('are disconnected, whether they send pings or nothing, and the others stay', async () => {
    const timeouts = { slowMs: FOREVER_MS, pingMs: 2000 };
    const bundle = await startTickerBundle({ limits: { timeouts }, intervalMs: 100 });
    const token = await bundle.token();
    const crowd = await gather({ port: bundle.listener.port, token, readers: 20, silent: 5, chatty: 5 });
    expect(bundle.relay.size).to.equal(30);
    await eventually(
      () => bundle.relay.size,
      (size) => size <= 20,
    );
    // All readers are pinged at the same time. Twelve more ticks cover another round of pings.
    const { length } = (await crowd.report()).timestamps;
    const report = await eventually(
      () => crowd.report(),
      ({ timestamps }) => timestamps.length >= length + 12,
    );
    expectEveryTick(report);
    expect(report.closed).to.deep.equal({});
    expect([bundle.relay.size, bundle.relay.slotsTaken, bundle.sockets.size]).to.deep.equal([20, 20, 20]);
  });

  it('are closed with 4008, and little is buffered for them', async () => {
    const timeouts = { slowMs: 1000, pingMs: FOREVER_MS };
    const bundle = await startTickerBundle({ limits: { timeouts } });
    const token = await bundle.token();
    const crowd = await gather({ port: bundle.listener.port, token, readers: 5, silent: 5, chatty: 5, madeUp: true });
    await until(() => bundle.ticker.received.length === 15);
    const clients = bundle.ticker.received.flatMap((m) => (m.topic === 'subscribe' ? [m.client_pid] : []));
    // Ticks so large that the kernel buffers only a few of them. The first one serves as the snapshot.
    let n = 0;
    const tick = () => {
      const data = JSON.stringify({ type: 'ticker', data: [{ timestamp: n++ }], pad: 'x'.repeat(32 * 1024) });
      bundle.relay.broadcast(clients, { topic: 'ws.send', type: 'text', data });
    };
    const waiting = () => [...bundle.sockets].map(({ writableLength }) => writableLength);
    tick();
    while (waiting().filter((bytes) => bytes > SOCKET_BUFFER).length < 10) {
      tick();
      await crowd.report();
    }
    for (let more = 0; more < 30; more++) {
      tick();
      await crowd.report();
    }
    expect(Math.max(...waiting())).to.be.at.most(SOCKET_BUFFER + 2 * 33 * 1024);
    const report = await crowd.report();
    expectEveryTick(report);
    expect(report.timestamps.length).to.equal(n - 1);

    const total = () => waiting().reduce((sum, bytes) => sum + bytes, 0);
    const stuck = total();
    const closeFrame = 2 + 2 + closeCodes.tooSlow.reason.length;
    await until(() => total() === stuck + 10 * closeFrame);
    await crowd.letAllRead();
    await until(() => bundle.relay.size === 5);
    expect((await crowd.report()).closed).to.deep.equal({ 'close code 4008': 10 });
  });
});
