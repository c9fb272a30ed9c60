import { expect } from 'chai';
import { discard, type FreshQueue, idsOf, openInbox, publishAll } from './inbox.ts';

/** Conformance specs of the order of deliveries and of the prefetch bound. */
export function describeDelivering(fresh: FreshQueue): void {
  describe('delivering', () => {
    it('delivers in the order of publishing, before and after somebody takes', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const inbox = openInbox(queue);
      expect(idsOf(await inbox.take(3))).to.deep.equal([...'abc']);
      await publishAll(queue, 'def');
      expect(idsOf(await inbox.take(3))).to.deep.equal([...'def']);
    });

    it('delivers the message as it was published, as the first attempt', async () => {
      const queue = await fresh();
      const body = '{"text":"ü \\u0000 𝄞"}';
      await queue.publish({ id: 'a', body });
      const delivery = await openInbox(queue).next();
      expect(delivery.message).to.deep.equal({ id: 'a', body });
      expect(delivery).to.include({ attempt: 1, crashes: 0, suspect: false });
    });

    it('delivers no more than was asked for, and each message once', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abcdefg');
      const inbox = openInbox(queue);
      const [a, b, c] = await inbox.take(3);
      expect(queue.counts()).to.include({ inFlight: 3, waiting: 4 });
      await b?.ack();
      expect((await inbox.next()).message.id).to.equal('d');
      expect(queue.counts()).to.include({ inFlight: 3, waiting: 3 });
      await a?.settle(discard());
      await c?.ack();
      expect(idsOf(await inbox.take(2))).to.deep.equal(['e', 'f']);
      expect(queue.counts()).to.include({ inFlight: 3, waiting: 1 });
    });

    it('calls the listener when a message is published, is due again, or is released', async () => {
      const queue = await fresh();
      const inbox = openInbox(queue);
      // Each call of `next` waits for the listener.
      const first = inbox.next();
      await publishAll(queue, 'a');
      await (await first).settle({ kind: 'retry', delayMs: 5, reason: 'no', failure: 'transient' });
      const again = await inbox.next();
      const released = inbox.next();
      await again.release();
      expect((await released).attempt).to.equal(2);
    });

    it('does not call a listener that has stopped, and goes on with the one that follows', async () => {
      const queue = await fresh();
      let calls = 0;
      queue.onReady(() => calls++)();
      await publishAll(queue, 'ab');
      expect(calls).to.equal(0);
      expect(queue.counts()).to.include({ waiting: 2, inFlight: 0 });
      const first = openInbox(queue);
      const a = await first.next();
      first.stop();
      first.stop();
      const second = openInbox(queue);
      first.stop();
      expect((await second.next()).message.id).to.equal('b');
      await a.ack();
      await publishAll(queue, 'c');
      expect((await second.next()).message.id).to.equal('c');
    });
  });
}
