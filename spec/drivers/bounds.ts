import { expect } from 'chai';
import { type Queue, QueueFull } from '../../main/tasks/queue/queue.ts';
import { discard, type FreshQueue, openInbox, publishAll, retry } from './inbox.ts';

/** Conformance specs of a driver's bounds. */
export function describeBounds(fresh: FreshQueue): void {
  describe('its bounds', () => {
    it('refuses a message past its number, and takes one for each that is done', async () => {
      const queue = await fresh({ maxLength: 2 });
      await publishAll(queue, 'ab');
      await expectFull(queue, 'c');
      expect(queue.counts()).to.include({ accepted: 2, waiting: 2 });
      const [a] = await openInbox(queue).take(2);
      await expectFull(queue, 'c');
      await a?.ack();
      await publishAll(queue, 'c');
      await expectFull(queue, 'd');
    });

    it('refuses a message past its bytes, not one that just fits', async () => {
      const queue = await fresh({ maxBytes: 10 });
      await queue.publish({ id: 'a', body: '123456' });
      expect(queue.counts().bytes).to.equal(6);
      await expectFull(queue, '12345');
      await queue.publish({ id: 'b', body: '1234' });
      await expectFull(queue, '1');
      const [a] = await openInbox(queue).take(2);
      await a?.ack();
      expect(queue.counts().bytes).to.equal(4);
      await queue.publish({ id: 'c', body: '123456' });
    });

    it('refuses a message that is larger than all its bytes while it is empty', async () => {
      const queue = await fresh({ maxBytes: 10 });
      await expectFull(queue, '12345678901');
      await publishAll(queue, 'a');
    });

    it('counts the bytes of messages that are still being accepted', async () => {
      const queue = await fresh({ maxBytes: 10 });
      const bodies = ['123456', '1234', '1', '2'];
      const results = await Promise.allSettled(bodies.map((body) => queue.publish({ id: `id-${body}`, body })));
      expect(results.map(({ status }) => status)).to.deep.equal(['fulfilled', 'fulfilled', 'rejected', 'rejected']);
      for (const result of results.slice(2)) expect(result).to.have.property('reason').that.is.instanceOf(QueueFull);
      expect(queue.counts()).to.include({ accepted: 2, bytes: 10 });
    });

    it('counts retries that wait and what is released, not dead letters', async () => {
      const queue = await fresh({ maxLength: 1 });
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      await (await inbox.next()).settle(retry(5));
      await expectFull(queue, 'b');
      const again = await inbox.next();
      inbox.stop();
      await again.release();
      await expectFull(queue, 'b');
      await (await openInbox(queue).next()).settle(discard());
      await publishAll(queue, 'b');
    });
  });
}

async function expectFull(queue: Queue, body: string): Promise<void> {
  const before = queue.counts();
  const error = await queue.publish({ id: 'refused', body }).catch((error) => error);
  expect(error).to.be.instanceOf(QueueFull);
  expect(queue.counts()).to.deep.equal(before);
}
