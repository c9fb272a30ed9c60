import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { connect, type StreamClient } from '../support/websocket.ts';
import { startCluster } from './cluster.ts';
import { expectSmoothPrices } from './parts.ts';

async function nextTick(client: StreamClient): Promise<{ timestamp: number; text: string }> {
  const message = await client.nextOf('ticker');
  return { timestamp: message.data[0].timestamp, text: JSON.stringify(message) };
}

describeWithPostgres('nodes', () => {
  it(`whose leader is killed under load: every accepted task is settled, and prices continue ${seedNote}`, async () => {
    const cluster = await startCluster();
    // The first node to start becomes the leader.
    const doomed = await cluster.node();
    const stays = await cluster.node();
    const client = await connect(stays.stream, { token: await stays.token() });
    const token = await doomed.token();
    const cut = await connect(doomed.stream, { token });
    const ticks: Awaited<ReturnType<typeof nextTick>>[] = [];
    while (ticks.length < 3) ticks.push(await nextTick(client));
    const ledger = new Ledger();
    const stops = [doomed, stays].map((node, index) => ledger.flood(node.tasks, randomFrom(index)));
    await ledger.grows(100);
    doomed.child.kill('SIGKILL');
    const killedAt = Date.now() / 1000;
    await ledger.grows(50);
    for (const stopped of stops) await stopped();
    await ledger.accountedFor(stays.tasks);
    // Ticks stamped more than a second after the kill cannot be those of the dead node.
    while (ticks.filter(({ timestamp }) => timestamp > killedAt + 1).length < 3) ticks.push(await nextTick(client));
    // The leader may have stored a tick that it did not send before it was killed.
    expectSmoothPrices(
      ticks.map(({ text }) => text),
      1,
    );
    const seconds = ticks.map(({ timestamp }) => timestamp);
    expect(seconds).to.deep.equal(seconds.toSorted((one, other) => one - other));
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    // The disconnected client reconnects to the other node with the same token.
    await cut.closed;
    const again = await connect(stays.stream, { token });
    await again.nextOf('ticker');
  });

  it('whose leader stands still: another one goes on, and no second gets two prices', async () => {
    const cluster = await startCluster();
    const stands = await cluster.node();
    const stays = await cluster.node();
    await stands.logged(({ msg }) => msg.startsWith('this node is now the leader'));
    const clients = [
      await connect(stands.stream, { token: await stands.token() }),
      await connect(stays.stream, { token: await stays.token() }),
    ];
    const seen = new Map<number, Set<string>>();
    for (const { socket } of clients)
      socket.on('message', (text) => {
        const { type, data } = JSON.parse(text.toString());
        if (type !== 'ticker') return;
        const { timestamp } = data[0];
        seen.set(timestamp, (seen.get(timestamp) ?? new Set()).add(JSON.stringify(data)));
      });
    // The first message to each client is a snapshot, which may be of the second of a tick.
    await until(() => seen.size >= 2);
    seen.clear();
    stands.child.kill('SIGSTOP');
    afterTest(() => stands.child.kill('SIGCONT'));
    const grows = async (count: number) => {
      const goal = seen.size + count;
      await until(() => seen.size >= goal);
    };
    await grows(2);
    stands.child.kill('SIGCONT');
    await grows(2);
    for (const [timestamp, prices] of seen) expect([timestamp, prices.size]).to.deep.equal([timestamp, 1]);
    expect(stays.lines.some(({ msg }) => msg.startsWith('this node is now the leader'))).to.equal(true);
  });
});
