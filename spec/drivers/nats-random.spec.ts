import { jetstreamManager } from '@nats-io/jetstream';
import { expect } from 'chai';
import type { Queue } from '../../main/tasks/queue/queue.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithNats } from '../support/servers.ts';
import { eventually } from '../support/until.ts';
import { discard, lettersOf, openInbox, type Received, retry } from './inbox.ts';
import { connection, openNode, ownPrefix } from './nats-node.ts';

const STEPS = 400;
/** Steps before the first node is disconnected. JetStream may deliver a message twice when a connection is lost. */
const STEPS_WITHOUT_LOSS = 200;
const PREFETCH = 4;
/** Never expires during the test, not even on a stalled machine. */
const ackWaitMs = 60_000;

/** A node and its unsettled deliveries. */
interface Node {
  queue: Queue;
  unsettled: Received[];
  fill(): Promise<void>;
  /** Closes the node's connection without a shutdown. */
  cutOff(): Promise<void>;
}

describeWithNats('nodes with one NATS queue, whatever is done to them', () => {
  it(`bring every task that was accepted to its end, those of nodes that are cut off, too ${seedNote}`, async function () {
    this.timeout(60_000);
    const { below, pick } = randomFrom(11);
    const steady = await connection();
    const prefix = ownPrefix(steady);
    const open = async (): Promise<Node> => {
      const nats = await connection();
      const unsettled: Received[] = [];
      const queue = await openNode({ nats, prefix, ackWaitMs });
      // No delivery has started.
      queue.onCancel(({ message: { id } }) => {
        const index = unsettled.findIndex(({ message }) => message.id === id);
        if (index >= 0) unsettled.splice(index, 1);
        return index >= 0;
      });
      const inbox = openInbox(queue);
      const fill = async () => void unsettled.push(...(await inbox.takeReady(PREFETCH - unsettled.length)));
      return { queue, unsettled, fill, cutOff: () => nats.close() };
    };
    const nodes = [await open(), await open()];
    const accepted = new Set<string>();
    const ended = new Map<string, number>();
    const end = (id: string) => ended.set(id, (ended.get(id) ?? 0) + 1);
    let cuts = 0;

    const settle = async ({ unsettled }: Node, does: string) => {
      const [delivery] = unsettled.splice(below(unsettled.length), 1);
      if (delivery === undefined) return;
      const { id } = delivery.message;
      await delivery.markRunning();
      if (does === 'release') await delivery.release();
      else if (does === 'retry') {
        await delivery.settle(retry(below(20)));
      } else {
        end(id);
        if (does === 'ack') await delivery.ack();
        else await delivery.settle(discard());
      }
    };

    for (let step = 0; step < STEPS; step++) {
      const node = nodes[below(nodes.length)] as Node;
      const does = pick([
        'publish',
        'publish',
        'publish',
        'ack',
        'ack',
        'retry',
        'release',
        'give up',
        'turn',
        'cancel',
      ]);
      if (does === 'publish') {
        const id = `task ${step}`;
        expect(await node.queue.publish({ id, body: id })).to.equal(id);
        accepted.add(id);
      } else if (does === 'turn') await new Promise(setImmediate);
      else if (does === 'cancel') {
        const unfinished = [...accepted].filter((id) => !ended.has(id));
        // A message of a disconnected node could only be cancelled after its ack wait.
        if (unfinished.length > 0 && step < STEPS_WITHOUT_LOSS) {
          const id = pick(unfinished);
          expect(await node.queue.cancel(id)).to.equal('cancelled');
          end(id);
        }
      } else await settle(node, does);
      await node.fill();
      expect(node.unsettled.length).to.be.at.most(PREFETCH);
      if (step < STEPS_WITHOUT_LOSS) {
        const held = nodes.flatMap(({ unsettled }) => unsettled.map(({ message }) => message.id));
        expect(new Set(held).size, 'tasks that two nodes have').to.equal(held.length);
        expect([...ended.values()].every((times) => times === 1)).to.equal(true);
      } else if (step % 100 === 99) {
        await node.cutOff();
        nodes[nodes.indexOf(node)] = await open();
        cuts += 1;
      }
    }
    // A short ack wait: tasks of the disconnected nodes are redelivered now, perhaps others too.
    const { consumers } = await jetstreamManager(steady);
    await consumers.update(`${prefix}-tasks`, 'nodes', { ack_wait: 200 * 1_000_000 });
    while (ended.size < accepted.size) {
      for (const node of nodes) {
        await node.fill();
        await settle(node, 'ack');
      }
      await new Promise(setImmediate);
    }
    // Tasks that were delivered again meanwhile.
    for (const node of nodes) while (node.unsettled.length > 0) await settle(node, 'ack');
    expect(cuts).to.equal(2);
    expect([...ended.keys()].sort()).to.deep.equal([...accepted].sort());
    for (const { queue } of nodes) {
      // Counts of the other nodes arrive with a delay.
      const { dead } = await eventually(
        () => queue.counts(),
        ({ accepted: all, completed, dead, cancelled, waiting, delayed, inFlight }) =>
          all === accepted.size && completed + dead + cancelled === all && waiting + delayed + inFlight === 0,
      );
      expect((await lettersOf(queue)).length).to.equal(dead);
    }
  });
});
