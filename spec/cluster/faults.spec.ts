import { expect } from 'chai';
import { Ledger } from '../support/ledger.ts';
import type { RunningServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithServers } from '../support/servers.ts';
import { connect } from '../support/websocket.ts';
import { startCluster, startNodes } from './cluster.ts';

describeWithServers('nodes', () => {
  it(`of which one is killed under load: every accepted task is settled, and the stream continues ${seedNote}`, async () => {
    const cluster = await startCluster();
    const [doomed, stays] = (await startNodes(cluster, 2)) as [RunningServices, RunningServices];
    const client = await connect(stays.stream, { token: await stays.token() });
    await client.nextOf('ticker');
    const token = await doomed.token();
    const cut = await connect(doomed.stream, { token });
    const ledger = new Ledger();
    let over = false;
    const loads = [doomed, stays].map((node, index) =>
      ledger.flood(node.tasks, randomFrom(index), { clients: 4, over: () => over }),
    );
    await ledger.grows(500);
    doomed.child.kill('SIGKILL');
    await ledger.grows(300);
    over = true;
    await Promise.all(loads);
    await ledger.accountedFor(stays.tasks);
    // Ticks continue whether or not the killed node was the leader.
    for (let tick = 0; tick < 3; tick++) await client.nextOf('ticker');
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    // The disconnected client reconnects to the other node with the same token.
    await cut.closed;
    const again = await connect(stays.stream, { token });
    await again.nextOf('ticker');
  }).timeout(120_000);

  it('whose leader is killed: another node continues from its prices', async () => {
    const cluster = await startCluster();
    // The first node to start becomes the leader.
    const maker = await cluster.node();
    const other = await cluster.node();
    const client = await connect(other.stream, { token: await other.token() });
    const ticks: { timestamp: number; prices: number[] }[] = [];
    const next = async () => {
      const { data } = await client.nextOf('ticker');
      ticks.push({ timestamp: data[0].timestamp, prices: data.map(({ price }: { price: number }) => price) });
    };
    for (let count = 0; count < 3; count++) await next();
    maker.child.kill('SIGKILL');
    const killedAt = Date.now() / 1000;
    // Ticks stamped more than a second after the kill cannot be those of the dead node.
    while (ticks.filter(({ timestamp }) => timestamp > killedAt + 1).length < 3) await next();
    for (const [index, { timestamp, prices }] of ticks.entries()) {
      const before = ticks[index - 1];
      if (before === undefined) continue;
      expect(timestamp).to.be.at.least(before.timestamp);
      for (const [symbol, price] of prices.entries()) {
        const last = before.prices[symbol] as number;
        expect(Math.abs(price - last)).to.be.at.most(last * 0.001 + 0.01 + 1e-9);
      }
    }
  }).timeout(60_000);
});
