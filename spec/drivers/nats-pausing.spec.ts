import { expect } from 'chai';
import { describeWithNats } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { idsOf, openInbox, publishAll } from './inbox.ts';
import { connection, openNode, ownPrefix } from './nats-node.ts';

describeWithNats('several nodes with one NATS queue', () => {
  it('are paused and resumed together, and requeue what they have prefetched', async () => {
    const prefix = ownPrefix(await connection());
    const node = async () => openNode({ nats: await connection(), prefix, ackWaitMs: 60_000 });
    const [first, second] = [await node(), await node()];
    const inboxes = [openInbox(first), openInbox(second)];
    // Requests three messages, which arrive without being taken.
    expect(await inboxes[0]?.takeReady(3)).to.deep.equal([]);
    await publishAll(first, 'abc');
    await until(() => first.counts().waiting === 3);
    await first.pause();
    await until(() => second.paused);
    expect(await inboxes[1]?.takeReady(3)).to.deep.equal([]);
    const later = await node();
    expect(later.paused).to.equal(true);
    expect(first.counts()).to.include({ waiting: 3, inFlight: 0 });
    for (const inbox of inboxes) inbox.stop();
    await second.resume();
    await until(() => !first.paused && !later.paused);
    expect(idsOf(await openInbox(later).take(3)).sort()).to.deep.equal([...'abc']);
  });

  it('count requeued messages as waiting while paused, and one that runs elsewhere as in flight', async () => {
    const prefix = ownPrefix(await connection());
    const node = async () => openNode({ nats: await connection(), prefix, ackWaitMs: 60_000 });
    const [first, second, third] = [await node(), await node(), await node()];
    const inboxes = [openInbox(first), openInbox(second)];
    await publishAll(first, 'abcd');
    const deliveries = await inboxes[0]?.take(4);
    const [running, ...released] = deliveries ?? [];
    if (running !== undefined) await first.markRunning(running.delivery);
    await first.pause();
    await until(() => second.paused && third.paused);
    for (const delivery of released) await delivery.settle({ kind: 'release' });
    await until(() => third.counts().inFlight === 1 && third.counts().waiting === 3);
    await running?.ack();
    await until(() => third.counts().inFlight === 0 && third.counts().waiting === 3);
    for (const inbox of inboxes) inbox.stop();
  });
});
