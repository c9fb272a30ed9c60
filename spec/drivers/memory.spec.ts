import { expect } from 'chai';
import { DeadLetters } from '../../main/tasks/queue/dead-letters.ts';
import { MemoryQueue } from '../../main/tasks/queue/memory.ts';
import { afterTest } from '../support/cleanup.ts';
import { describeDriver } from './conformance.ts';
import { lettersOf, openInbox, publishAll, retry } from './inbox.ts';

describeDriver('MemoryQueue', (bounds, onEvent) => new MemoryQueue(bounds, { onEvent }));

function fresh(deadLetters = new DeadLetters()): MemoryQueue {
  const queue = new MemoryQueue({ maxLength: 1000, maxBytes: 100_000, maxKeys: 10 }, { deadLetters });
  afterTest(() => queue.close());
  return queue;
}

describe('MemoryQueue', () => {
  it('counts the dead letters that had to make room', async () => {
    const queue = fresh(new DeadLetters({ maxLength: 2, maxBytes: 100 }));
    await publishAll(queue, 'abc');
    const deliveries = await openInbox(queue, 3).take(3);
    for (const delivery of deliveries) await delivery.nack({ verdict: 'dead', reason: 'no' });
    expect(queue.counts()).to.include({ accepted: 3, dead: 2, dropped: 1, bytes: 0 });
    expect((await lettersOf(queue)).map(({ id }) => id)).to.deep.equal(['b', 'c']);
  });

  it('takes a consumer that settles before it returns', async () => {
    const queue = fresh();
    await publishAll(queue, 'abc');
    const seen: string[] = [];
    queue.consume(1, (delivery) => {
      seen.push(delivery.message.id);
      void delivery.ack();
    });
    await publishAll(queue, 'de');
    expect(seen).to.deep.equal([...'abcde']);
    expect(queue.counts()).to.include({ completed: 5, inFlight: 0 });
  });

  it('hands out a long backlog to such a consumer without running out of stack', async () => {
    const queue = new MemoryQueue({ maxLength: 50_000, maxBytes: 1_000_000, maxKeys: 10 });
    await publishAll(
      queue,
      Array.from({ length: 50_000 }, (_, index) => String(index)),
    );
    queue.consume(1, (delivery) => void delivery.ack());
    expect(queue.counts()).to.include({ completed: 50_000, inFlight: 0, waiting: 0 });
  });

  it('assigns higher sequence numbers than an earlier process did, even if the clock was set back', async () => {
    const seq = (Date.now() + 3_600_000) * 1000;
    const before = fresh();
    await publishAll(before, 'a');
    const { messages, ...holdings } = before.holdings();
    const bounds = { maxLength: 1000, maxBytes: 100_000, maxKeys: 10 };
    const queue = new MemoryQueue(bounds, {
      holdings: { ...holdings, messages: messages.map((a) => ({ ...a, seq })) },
    });
    afterTest(() => queue.close());
    await publishAll(queue, 'b');
    const deliveries = await openInbox(queue, 2).take(2);
    expect(deliveries.map((delivery) => delivery.seq)).to.deep.equal([seq, seq + 1]);
  });

  it('puts a retry behind what has come meanwhile', async () => {
    const queue = fresh();
    await publishAll(queue, 'ab');
    const inbox = openInbox(queue, 1);
    const a = await inbox.next();
    await a.nack(retry());
    const b = await inbox.next();
    await publishAll(queue, 'c');
    // The retry and what follows it wait for the only place in the window.
    while (queue.counts().delayed > 0) await new Promise(setImmediate);
    await publishAll(queue, 'd');
    await b.ack();
    const order: string[] = [];
    for (let i = 0; i < 3; i++) {
      const delivery = await inbox.next();
      order.push(delivery.message.id);
      await delivery.ack();
    }
    expect(order).to.deep.equal(['c', 'a', 'd']);
  });

  it('says how full it is when it refuses', async () => {
    const queue = new MemoryQueue({ maxLength: 1, maxBytes: 10, maxKeys: 10 });
    const refusal = (body: string) => queue.publish({ id: 'x', body }).catch(({ message }) => message);
    expect(await refusal('12345678901')).to.equal('the queue holds 0 bytes');
    await publishAll(queue, 'a');
    expect(await refusal('b')).to.equal('the queue holds 1 messages');
  });
});
