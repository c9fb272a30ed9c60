import { expect } from 'chai';
import {
  complete,
  discard,
  idsOf,
  messageOf,
  numbers,
  type QueueTests,
  redriveIn,
  release,
  type TestQueue,
} from './stage.ts';

const publishKeyed = (queue: TestQueue, ids: string, limitKey: string | undefined, priority = 3) =>
  Promise.all([...ids].map((id) => queue.store.publish({ ...messageOf(id), limitKey, priority })));

/** Conformance specs of the rounds in which limit keys alternate. */
export function describeRounds({ it }: QueueTests): void {
  describe('limit keys', () => {
    it('take turns, and each keeps the order of its messages', async (queue) => {
      await publishKeyed(queue, 'abcdef', 'one');
      await publishKeyed(queue, 'ghi', 'two');
      await publishKeyed(queue, 'jk', undefined);
      expect(await queue.takeIds(5)).to.equal('agjbh');
      expect(await queue.takeIds(20)).to.equal('kcidef');
      expect(await queue.message('a')).to.include({ limitKey: 'one', state: 'running' });
      expect((await queue.message('j')).limitKey).to.equal(undefined);
    });

    it('take turns within a priority', async (queue) => {
      await publishKeyed(queue, 'abc', 'one', 3);
      await publishKeyed(queue, 'de', 'one', 1);
      await publishKeyed(queue, 'f', 'two', 1);
      await publishKeyed(queue, 'g', 'two', 3);
      expect(await queue.takeIds(20)).to.equal('dfeagbc');
    });

    it('alternate although one of them submits its next message only when the last one has ended', async (queue) => {
      await publishKeyed(queue, 'bcdefghijk', 'crowd');
      const taken: string[] = [];
      for (const id of numbers(10)) {
        await queue.store.publish({ ...messageOf(id), limitKey: 'lone' });
        for (let isOwn = false; !isOwn; ) {
          const delivery = await queue.next();
          isOwn = delivery.limitKey === 'lone';
          taken.push(delivery.id);
          await queue.settle(delivery, complete());
        }
        if (taken.length > 12) break;
      }
      expect(taken.filter((id) => /\d/.test(id)).length).to.be.within(5, 8);
    });

    it('let a lone message pass a crowd, also if messages without a key are the crowd', async (queue) => {
      const publishCrowd = (ids: string[], limitKey?: string) =>
        Promise.all(ids.map((id) => queue.store.publish({ ...messageOf(id), limitKey })));
      await publishCrowd(numbers(500, 0), 'crowd');
      await publishCrowd(numbers(1000, 500));
      for (let count = 0; count < 40; count += 10) {
        for (const delivery of await queue.takeAll(10)) await queue.settle(delivery, complete());
      }
      await publishKeyed(queue, 'x', 'lone');
      await publishKeyed(queue, 'y', 'other');
      expect(idsOf(await queue.takeAll(5)))
        .to.include('x')
        .and.include('y');
    });

    it('start at the present round again, once nothing of them waits', async (queue) => {
      await publishKeyed(queue, 'abcdefg', 'one');
      for (const id of 'bcdefg') await queue.cancel(id);
      expect(await queue.takeIds(1)).to.equal('a');
      await publishKeyed(queue, 'h', 'one');
      await publishKeyed(queue, 'i', 'two');
      expect(await queue.takeIds(5)).to.equal('hi');
    });

    it('go to the end of their key when they are due, redriven or run now, and keep their place when they are released', async (queue) => {
      await publishKeyed(queue, 'ab', 'one');
      const [a, b] = await queue.takeAll(2);
      await queue.store.publish({ ...messageOf('s'), limitKey: 'one', runAt: queue.now + 5 });
      await queue.store.publish({ ...messageOf('t'), limitKey: 'one', runAt: queue.now + 5000 });
      await publishKeyed(queue, 'cd', 'one');
      await queue.settle(a, discard());
      await redriveIn(queue.store, { ids: ['a'] });
      await queue.store.runNow('t');
      await publishKeyed(queue, 'xyz', 'two');
      await queue.settle(b, release);
      queue.now += 5;
      expect(await queue.takeIds(20)).to.equal('bcxdyazts');
    });

    it('keep their rounds over a restart', async (queue) => {
      await publishKeyed(queue, 'abcdef', 'one');
      await publishKeyed(queue, 'uvw', undefined);
      expect(await queue.takeIds(2)).to.equal('au');
      await queue.restart();
      await publishKeyed(queue, 'gh', 'two');
      await publishKeyed(queue, 'x', undefined);
      expect(await queue.takeIds(6)).to.equal('augbvh');
    });
  });
}
