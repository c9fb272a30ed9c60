import { expect } from 'chai';
import { QueueFull } from '../../db/task-store.ts';
import { complete, errorOf, HOUR, messageOf, type QueueTests, release, retry } from './stage.ts';

/** Conformance specs of the end of a store and of the next store over its tables. */
export function describeClosing({ it }: QueueTests): void {
  describe('closed', () => {
    it('refuses messages, with an error other than QueueFull, delivers none, and may be closed again', async (queue) => {
      await queue.publish('a');
      expect(await queue.store.close()).to.equal(true);
      expect(await errorOf(() => queue.store.publish(messageOf('b')))).to.not.be.instanceOf(QueueFull);
      expect(await queue.takeIds(5).catch(() => '')).to.equal('');
      await queue.restart();
      await queue.expectCounts({ accepted: 1, waiting: 1 });
    });

    it('has written what was submitted before', async (queue) => {
      const submitted = Promise.allSettled([...'abc'].map((id) => queue.store.publish(messageOf(id))));
      await queue.restart();
      const accepted = (await submitted).filter(({ status }) => status === 'fulfilled').length;
      await queue.expectCounts({ accepted, waiting: accepted });
    });

    it('leaves everything to the next one, once: messages in order, dead letters and rows', async (queue) => {
      await queue.discard('xy');
      await queue.publish('abcde');
      const [a, b, c] = await queue.takeAll(3);
      await queue.settle(a, complete());
      await queue.settle(b, release);
      await queue.settle(c, retry(queue.now + HOUR));
      const messages = await queue.store.read([...'xybcde']);
      const { bytes, oldest } = await queue.store.counts();
      await queue.restart();
      await queue.expectCounts({ dead: 2, waiting: 3, retrying: 1, inFlight: 0, bytes, oldest });
      expect(await queue.store.read([...'xybcde'])).to.deep.equal(messages);
      expect(await queue.stateOf('a')).to.equal('completed');
      const taken = await queue.takeAll(3);
      const numbers = taken.map(({ id, attempt, isSuspect }) => `${id} ${attempt} ${isSuspect}`);
      expect(numbers).to.deep.equal(['b 1 false', 'd 1 false', 'e 1 false']);
      await queue.settleAll(taken, complete());
      await queue.cancel('c');
      await queue.restart();
      await queue.expectCounts({ dead: 2, waiting: 0, retrying: 0, bytes: 0 });
    });
  });
}
