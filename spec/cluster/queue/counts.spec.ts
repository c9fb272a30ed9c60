import { expect } from 'chai';
import { NatsCounts } from '../../../main/cluster/queue/counts.ts';
import type { QueueStreams } from '../../../main/cluster/queue/queue-streams.ts';

const NOTHING = { inFlight: 0, delayed: 0, pending: 0 };

describe('the counts of the NATS queue', () => {
  it('ignore a reading that began while a message was being settled, even if it ends afterwards', async () => {
    const reading = Promise.withResolvers<object>();
    const empty = { messages: 0, bytes: 0, last_seq: 0, first_seq: 0 };
    const link = { manager: { consumers: { info: async () => ({ num_ack_pending: 0 }) } } };
    const counts = new NatsCounts({
      tasks: { name: 'tasks', state: () => reading.promise, link, subject: () => '' },
      letters: { state: async () => empty },
      cancellations: { state: async () => empty },
    } as unknown as QueueStreams);
    counts.stored(1, 0);
    const acked = Promise.withResolvers<void>();
    const settling = counts.during(() => {
      counts.settled(1, 0);
      return acked.promise;
    });
    const refreshing = counts.refresh(() => NOTHING);
    acked.resolve();
    await settling;
    reading.resolve({ ...empty, messages: 1, last_seq: 1, first_seq: 1 });
    await refreshing;
    expect(counts.counts(NOTHING)).to.include({ accepted: 1, completed: 1, waiting: 0 });
  });
});
