import { expect } from 'chai';
import { complete, type QueueTests, release, retry } from './stage.ts';

/** Conformance specs of the pause. */
export function describePausing({ it }: QueueTests): void {
  describe('paused', () => {
    it('accepts messages and delivers none, and delivers all in order once it is resumed', async (queue) => {
      const { store } = queue;
      expect(await store.isPaused()).to.equal(false);
      await queue.publish('ab');
      expect(await queue.takeIds(1)).to.equal('a');
      for (const at of [5_000, 6_000]) await store.setPaused(true, at);
      expect(await store.pausedAt()).to.equal(5_000);
      expect(await store.isPaused()).to.equal(true);
      await queue.publish('cd');
      expect(await store.take(5, true)).to.deep.equal({ deliveries: [], nextRunAt: undefined });
      await queue.expectCounts({ accepted: 4, inFlight: 1, waiting: 3 });
      for (const isPaused of [false, false]) await store.setPaused(isPaused);
      expect(await store.pausedAt()).to.equal(undefined);
      expect(await store.isPaused()).to.equal(false);
      expect(await queue.takeIds(5)).to.equal('bcd');
    });

    it('settles what is in flight, and keeps what is released or due again', async (queue) => {
      await queue.publish('abc');
      const [a, b, c] = await queue.takeAll(3);
      await queue.store.setPaused(true);
      for (const [delivery, settlement] of [
        [a, complete()],
        [b, retry(queue.now + 5)],
        [c, release],
      ] as const)
        expect(await queue.settle(delivery, settlement)).to.equal('applied');
      queue.now += 5;
      expect(await queue.takeIds(5)).to.equal('');
      await queue.expectCounts({ completed: 1, waiting: 2, inFlight: 0 });
      await queue.store.setPaused(false);
      expect(await queue.takeIds(5)).to.equal('cb');
    });

    it('stays so until it is resumed, in the next process too', async (queue) => {
      await queue.publish('a');
      await queue.store.setPaused(true);
      await queue.restart();
      expect(await queue.store.isPaused()).to.equal(true);
      expect(await queue.takeIds(5)).to.equal('');
      await queue.store.setPaused(false);
      await queue.restart();
      expect(await queue.store.isPaused()).to.equal(false);
      expect(await queue.takeIds(5)).to.equal('a');
    });
  });
}
