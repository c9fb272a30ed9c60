import { expect } from 'chai';
import { closeCodes } from '../../main/ticker/close-codes.ts';
import { SOCKET_BUFFER } from '../../main/ticker/relay.ts';
import { type CrowdReport, gather } from '../support/crowd.ts';
import { residentBytes } from '../support/proc.ts';
import { startServices } from '../support/program.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const FOREVER_MS = 3_600_000;

/** Asserts that every reader received every tick and nothing else. */
function expectEveryTick(report: CrowdReport): void {
  expect(report).to.deep.include({ behind: 0, gaps: 0 });
  expect(Object.keys(report.types)).to.have.members(['welcome', 'ticker']);
}

describe('clients that never read', () => {
  it('a hundred of a thousand, are seen by no other one, and the memory stays bounded', async () => {
    const services = await startServices({ env: { TICK_INTERVAL_MS: '100' } });
    const pid = services.child.pid as number;
    const port = Number(new URL(services.ticker).port);
    const before = residentBytes(pid);
    const crowd = await gather({ port, token: await services.token(), readers: 900, silent: 50, chatty: 50 });
    let report = await crowd.report();
    while (report.timestamps.length < 30) report = await crowd.report();
    expectEveryTick(report);
    expect(report).to.deep.include({ closed: {}, open: 1000 });
    // 15 KiB per client, plus heap fluctuation, most of it from the first requests.
    expect(residentBytes(pid) - before).to.be.at.most(128 * MIB);
    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });

  it('and only send, or say nothing, are cut off, and the others stay', async () => {
    const clientTimeouts = { slowMs: FOREVER_MS, pingMs: 2000 };
    const bundle = await startTickerBundle({ limits: { clientTimeouts }, intervalMs: 100 });
    const token = await bundle.token();
    const crowd = await gather({ port: bundle.listener.port, token, readers: 100, silent: 10, chatty: 10 });
    expect(bundle.relay.size).to.equal(120);
    await until(() => bundle.relay.size <= 100);
    // All readers are pinged at the same time. Twelve more ticks cover another round of pings.
    const { length } = (await crowd.report()).timestamps;
    let report = await crowd.report();
    while (report.timestamps.length < length + 12) report = await crowd.report();
    expectEveryTick(report);
    expect(report.closed).to.deep.equal({});
    expect([bundle.relay.size, bundle.relay.places, bundle.sockets.size]).to.deep.equal([100, 100, 100]);
  });

  it('and are stuck, are closed with 4008, and little waits for them', async () => {
    const clientTimeouts = { slowMs: 1000, pingMs: FOREVER_MS };
    const bundle = await startTickerBundle({ limits: { clientTimeouts } });
    const token = await bundle.token();
    const crowd = await gather({ port: bundle.listener.port, token, readers: 20, silent: 5, chatty: 5, madeUp: true });
    await until(() => bundle.ticker.received.length === 30);
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
    for (let more = 0; more < 100; more++) {
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
    await until(() => bundle.relay.size === 20);
    expect((await crowd.report()).closed).to.deep.equal({ 4008: 10 });
  });
});
