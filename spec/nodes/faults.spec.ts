import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { startCluster } from './cluster.ts';
import { expectSmoothPrices } from './parts.ts';

describeWithPostgres('two nodes', () => {
  it(`whose leader stands still, and whose next leader is killed under load, settle every accepted task, and no second gets two prices ${seedNote}`, async () => {
    const cluster = await startCluster();
    // The first node to start becomes the leader.
    const stands = await cluster.node();
    const doomed = await cluster.node();
    const token = await doomed.token();
    const client = await connect(stands.stream, { token: await stands.token() });
    const other = await connect(doomed.stream, { token });
    /** Texts of the ticks of both clients by second. The first message to each client is a snapshot. */
    const seen = new Map<number, Set<string>>();
    for (const { socket } of [client, other])
      socket.on('message', (message) => {
        const text = message.toString();
        const { type, data } = JSON.parse(text);
        if (type === 'ticker') seen.set(data[0].timestamp, (seen.get(data[0].timestamp) ?? new Set()).add(text));
      });
    const grows = async (count: number, from = [...seen.keys()].at(-1) ?? 0) =>
      until(() => [...seen.keys()].filter((second) => second > from).length >= count);
    await grows(2);
    seen.clear();
    stands.child.kill('SIGSTOP');
    afterTest(() => stands.child.kill('SIGCONT'));
    await grows(2);
    stands.child.kill('SIGCONT');
    await doomed.logged(({ msg }) => msg.startsWith('this node is now the leader'));
    await grows(2);
    for (const [second, texts] of seen) expect([second, texts.size]).to.deep.equal([second, 1]);

    seen.clear();
    const ledger = new Ledger();
    const stops = [doomed, stands].map((node, index) => ledger.flood(node.tasks, randomFrom(index)));
    await ledger.grows(100);
    doomed.child.kill('SIGKILL');
    const killedAt = Date.now() / 1000;
    await ledger.grows(50);
    for (const stopped of stops) await stopped();
    await ledger.accountedFor(stands.tasks);
    // Ticks stamped more than a second after the kill cannot be those of the dead node.
    await grows(3, killedAt + 1);
    // The leader may have stored a tick that it did not send before it was killed.
    expectSmoothPrices(
      [...seen.values()].map(([text = '']) => text),
      1,
    );
    const seconds = [...seen.keys()];
    expect(seconds).to.deep.equal(seconds.toSorted((one, another) => one - another));
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    // The disconnected client reconnects to the other node with the same token.
    await other.closed;
    await (await connect(stands.stream, { token })).nextOf('ticker');
  });
});
