import { expect } from 'chai';
import { DeadLetterStore } from '../../main/tasks/queue/dead-letter-store.ts';
import { LocalQueue } from '../../main/tasks/queue/local-queue.ts';
import { afterTest } from '../support/cleanup.ts';
import { describeDriver } from './conformance.ts';
import { discard, lettersOf, openInbox, publishAll, retry } from './inbox.ts';

describeDriver('LocalQueue', (bounds, onEvent) => new LocalQueue(bounds, { onEvent }));

function fresh(deadLetters = new DeadLetterStore()): LocalQueue {
  const queue = new LocalQueue({ maxLength: 1000, maxBytes: 100_000, maxKeys: 10 }, { deadLetters });
  afterTest(() => queue.close());
  return queue;
}

describe('LocalQueue', () => {
  it('counts the dead letters that had to make room', async () => {
    const queue = fresh(new DeadLetterStore({ maxLength: 2, maxBytes: 100 }));
    await publishAll(queue, 'abc');
    const deliveries = await openInbox(queue).take(3);
    for (const delivery of deliveries) await delivery.settle(discard());
    expect(queue.counts()).to.include({ accepted: 3, dead: 2, dropped: 1, bytes: 0 });
    expect((await lettersOf(queue)).map(({ id }) => id)).to.deep.equal(['b', 'c']);
  });

  it('assigns higher sequence numbers than an earlier process did, even if the clock was set back', async () => {
    const sequence = (Date.now() + 3_600_000) * 1000;
    const before = fresh();
    await publishAll(before, 'a');
    const { messages, ...snapshot } = before.snapshot();
    const bounds = { maxLength: 1000, maxBytes: 100_000, maxKeys: 10 };
    const queue = new LocalQueue(bounds, {
      snapshot: { ...snapshot, messages: messages.map((a) => ({ ...a, sequence })) },
    });
    afterTest(() => queue.close());
    await publishAll(queue, 'b');
    const deliveries = await openInbox(queue).take(2);
    expect(deliveries.map((delivery) => delivery.sequence)).to.deep.equal([sequence, sequence + 1]);
  });

  it('keeps a delay of hours across a restart, but none above a day, which only a clock set back can cause', async () => {
    const before = fresh();
    await publishAll(before, 'ab');
    const { messages, ...snapshot } = before.snapshot();
    const now = Date.now();
    const dueAt = [now + 3_600_000, now + 48 * 3_600_000];
    const queue = new LocalQueue(
      { maxLength: 1000, maxBytes: 100_000, maxKeys: 10 },
      { snapshot: { ...snapshot, messages: messages.map((each, n) => ({ ...each, dueAt: dueAt[n] as number })) } },
    );
    afterTest(() => queue.close());
    const [a, b] = await Promise.all(['a', 'b'].map((id) => queue.find(id)));
    expect(a).to.include({ state: 'retrying', dueAt: dueAt[0] });
    expect(b)
      .to.have.property('dueAt')
      .that.is.within(now + 24 * 3_600_000, Date.now() + 24 * 3_600_000);
  });

  it('puts a retry behind what has come meanwhile', async () => {
    const queue = fresh();
    await publishAll(queue, 'ab');
    const inbox = openInbox(queue);
    const a = await inbox.next();
    await a.settle(retry());
    const b = await inbox.next();
    await publishAll(queue, 'c');
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
    const queue = new LocalQueue({ maxLength: 1, maxBytes: 10, maxKeys: 10 });
    const refusal = (body: string) => queue.publish({ id: 'x', body }).catch(({ message }) => message);
    expect(await refusal('12345678901')).to.equal('the queue holds 0 bytes');
    await publishAll(queue, 'a');
    expect(await refusal('b')).to.equal('the queue holds 1 messages');
  });
});
