import { expect } from 'chai';
import { ack, cancel, complete, discard, HOUR, type QueueTests, release, retry } from './stage.ts';

/** Conformance specs of cancellation. */
export function describeCancelling({ it }: QueueTests): void {
  describe('cancelling', () => {
    it('deletes a waiting message, and leaves the others in order', async (queue) => {
      await queue.publish('abcd');
      expect(await queue.store.cancel('b')).to.deep.equal({ outcome: 'cancelled', action: 'sum' });
      expect(await queue.store.find('b')).to.equal(undefined);
      await queue.expectCounts({ accepted: 4, cancelled: 1, waiting: 3 });
      expect(await queue.takeIds(5)).to.equal('acd');
    });

    it('deletes a message that is due later, which is not delivered again', async (queue) => {
      await queue.publish('ab');
      const [a, b] = await queue.takeAll(2);
      await queue.settle(a, retry(queue.now + 20));
      await queue.settle(b, retry(queue.now + 60));
      expect(await queue.cancel('a')).to.equal('cancelled');
      expect((await queue.store.take(5, true)).nextRunAt).to.be.within(queue.now, queue.now + 60);
      queue.now += HOUR;
      expect(await queue.takeIds(5)).to.equal('b');
      await queue.expectCounts({ accepted: 2, cancelled: 1, inFlight: 1 });
    });

    it('of a running message is requested, each time it is asked for, and its owner can look it up', async (queue) => {
      await queue.publish('abc');
      await queue.take(2);
      const requests = async (...ids: string[]) => [...(await queue.store.cancelRequests(ids))];
      expect(await requests('a', 'b', 'c', 'x', '__proto__')).to.deep.equal([]);
      expect(await queue.store.cancel('a')).to.deep.equal({ outcome: 'requested', action: 'sum' });
      expect(await queue.cancel('a')).to.equal('requested');
      expect(await requests('a', 'b', 'c', 'x')).to.deep.equal(['a']);
      expect(await requests()).to.deep.equal([]);
      expect(await queue.stateOf('a')).to.equal('running');
      await queue.expectCounts({ inFlight: 2, cancelled: 0, waiting: 1 });
    });

    for (const [settlement, effect, counted] of [
      [cancel, 'applied', 'cancelled'],
      [release, 'cancelled', 'cancelled'],
      [retry(0), 'cancelled', 'cancelled'],
      [complete(), 'applied', 'completed'],
      [ack, 'applied', 'completed'],
      [discard(), 'applied', 'dead'],
    ] as const) {
      it(`of a running message ends as ${counted} if its attempt ends with ${settlement.kind}`, async (queue) => {
        await queue.publish('a');
        const delivery = await queue.next();
        await queue.cancel('a');
        expect(await queue.settle(delivery, settlement)).to.equal(effect);
        await queue.expectEnded({ accepted: 1, [counted]: 1 });
        expect(await queue.takeIds(1)).to.equal('');
      });
    }

    it('of an attempt does not concern the life after a redrive', async (queue) => {
      await queue.publish('a');
      const first = await queue.next();
      await queue.cancel('a');
      await queue.settle(first, discard());
      await queue.redrive({ all: true });
      const second = await queue.next();
      expect(await queue.store.cancelRequests(['a'])).to.deep.equal([]);
      expect(await queue.settle(second, retry(queue.now))).to.equal('applied');
      expect(await queue.takeIds(1)).to.equal('a');
    });

    it('says what has ended, and nothing of what was cancelled or is unknown', async (queue) => {
      await queue.discard('b');
      await queue.publish('ac');
      await queue.settle(await queue.next(), complete());
      expect(await queue.cancel('c')).to.equal('cancelled');
      for (const id of 'ab') expect(await queue.cancel(id), id).to.equal('ended');
      for (const id of ['c', 'x', '', '__proto__']) expect(await queue.store.cancel(id), id).to.equal(undefined);
      await queue.expectCounts({ accepted: 3, completed: 1, dead: 1, cancelled: 1, waiting: 0 });
    });

    it('at the same time as a take has one of two ends', async (queue) => {
      await queue.publish('abcdefgh');
      const results = await Promise.all([...'abcdefgh'].map((id) => Promise.all([queue.cancel(id), queue.takeIds(1)])));
      const taken = results.map(([, ids]) => ids).join('');
      for (const [index, id] of [...'abcdefgh'].entries())
        expect(results[index]?.[0], id).to.equal(taken.includes(id) ? 'requested' : 'cancelled');
    });

    it('keeps the idempotency key, so that a repeated submission does not bring the message back', async (queue) => {
      await queue.publishKeyed('a', 'key');
      await queue.cancel('a');
      expect(await queue.publishKeyed('b', 'key')).to.equal('a');
      await queue.expectEnded({ accepted: 1, cancelled: 1 });
    });
  });
}
