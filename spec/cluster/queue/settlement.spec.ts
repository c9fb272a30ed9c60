import type { Msg } from '@nats-io/transport-node';
import { expect } from 'chai';
import type { DeliveryState } from '../../../main/cluster/queue/delivery-state.ts';
import { type PendingDelivery, pendingDelivery } from '../../../main/cluster/queue/pending-delivery.ts';
import type { QueueParts } from '../../../main/cluster/queue/queue-parts.ts';
import { NatsSettler } from '../../../main/cluster/queue/settlement.ts';
import { token } from '../../../main/cluster/queue/stream.ts';
import { MemoryValues } from './memory-values.ts';

const LATER = { kind: 'retry', delayMs: 0, reason: 'no', failure: 'transient' } as const;

/** Creates the settlers of nodes that share stored notes. No message reaches a server. */
function createNodes() {
  const notes = new MemoryValues<DeliveryState>();
  const acks: string[] = [];
  const parts = {
    link: { connection: { request: async (_reply: string, ack: string) => acks.push(ack) } },
    counts: { settled() {} },
    events: { tell() {} },
    letters: { get: async () => undefined },
    cancellations: { has: async () => false },
    notes,
  };
  return {
    notes,
    acks,
    stored: async () => (await notes.get(token('a')))?.value,
    node: () => new NatsSettler(parts as unknown as QueueParts),
  };
}

/** Creates the n-th delivery of the only message. */
function delivery(n: number): PendingDelivery {
  return pendingDelivery({ subject: 'P.tasks.a', data: new Uint8Array(), reply: `$JS.ACK.s.c.${n}.1.1.1.0` } as Msg, n);
}

describe('a completed task', () => {
  it('is only acked if JetStream redelivers its message, although its ack was confirmed', async () => {
    const { node, acks } = createNodes();
    const settler = node();
    await settler.complete(delivery(1));
    expect(settler.isCompleted(1)).to.equal(true);
    expect(await settler.resolve(delivery(2))).to.equal(false);
    expect(acks).to.deep.equal(['+ACK', '+ACK']);
  });

  it('does not stand for another task of the same stream sequence, after the stream was created again', async () => {
    const { node } = createNodes();
    const settler = node();
    await settler.complete(delivery(1));
    expect(await settler.resolve({ ...delivery(2), id: 'b' })).to.equal(true);
  });
});

describe('the note of a task', () => {
  it('records the run of a suspect, though the node of the earlier delivery wrote meanwhile', async () => {
    const { node, stored } = createNodes();
    const [earlier, suspect] = [delivery(1), delivery(2)];
    const [first, second] = [node(), node()];
    suspect.id = earlier.id = 'a';
    await second.resolve(suspect);
    await first.requeue(earlier);
    await second.markRunning(suspect);
    expect(await stored()).to.include({ running: true, suspect: true });
  });

  it('is written again by a node whose earlier write was not confirmed', async () => {
    const { node, notes, stored, acks } = createNodes();
    const pending = delivery(2);
    const settler = node();
    await settler.resolve(pending);
    const put = notes.put.bind(notes);
    notes.put = async (...values) => {
      await put(...values);
      throw new Error('no answer');
    };
    expect(await settler.markRunning(pending).catch((error: Error) => error.message)).to.equal('no answer');
    notes.put = put;
    await settler.postpone(pending, LATER, 0);
    expect(await stored()).to.include({ attempts: 1, crashes: 0, running: false, suspect: false });
    expect(acks).to.deep.equal(['-NAK']);
  });

  it('is not overwritten by the node of an earlier delivery', async () => {
    const { node, stored, acks } = createNodes();
    const [earlier, suspect] = [delivery(1), delivery(2)];
    const [first, second] = [node(), node()];
    await second.resolve(suspect);
    await second.markRunning(suspect);
    await first.postpone(earlier, LATER, 0);
    expect(await stored()).to.include({ attempts: 0, running: true, suspect: true });
    expect(acks).to.deep.equal([]);
  });
});
