import { expect } from 'chai';
import { complete, discard, idsOf, type QueueTests, release, sorted } from './stage.ts';

/** Conformance specs of deliveries and their order. */
export function describeTaking({ it }: QueueTests): void {
  describe('taking', () => {
    it('returns messages in the order of acceptance, those of one millisecond too', async (queue) => {
      await queue.publish('abc');
      queue.now += 1;
      await queue.publishTogether([...'defgh']);
      expect(await queue.takeIds(6)).to.equal('abcdef');
      await queue.publish('i');
      expect(await queue.takeIds(9)).to.equal('ghi');
    });

    it('returns no more than asked for, and each message once', async (queue) => {
      await queue.publish('abcdefg');
      const [a, b, c] = await queue.takeAll(3);
      await queue.expectCounts({ inFlight: 3, waiting: 4 });
      await queue.settle(b, complete());
      expect(await queue.takeIds(1)).to.equal('d');
      await queue.settle(a, discard());
      await queue.settle(c, complete());
      expect(await queue.takeIds(2)).to.equal('ef');
      expect(await queue.takeIds(0)).to.equal('');
      await queue.expectCounts({ inFlight: 3, waiting: 1, completed: 2, dead: 1 });
    });

    it('returns what was released again in its place, with no attempt counted', async (queue) => {
      await queue.publish('abcd');
      const [a, b, c] = await queue.takeAll(3);
      queue.now += 10;
      await queue.publish('e');
      await queue.settle(c, release);
      await queue.settle(a, release);
      await queue.settle(b, complete());
      await queue.expectCounts({ waiting: 4, inFlight: 0 });
      const again = await queue.takeAll(4);
      expect(idsOf(again)).to.equal('acde');
      expect(again[0]).to.deep.equal({ ...a, delivery: 2 });
    });

    it('gives a message to one of those who ask at the same time', async (queue) => {
      await queue.publish('abcdef');
      const taken = (await Promise.all([2, 2, 2, 2].map((max) => queue.takeIds(max)))).join('');
      expect(sorted(taken + (await queue.takeIds(9)))).to.equal('abcdef');
    });
  });
}
