import { expect } from 'chai';
import type { TaskFilter } from '../../db/task-store.ts';
import { discard, idsOf, messageOf, type QueueTests, retry } from './stage.ts';

/** Conformance specs of the selection of unfinished tasks. */
export function describeSelecting({ it }: QueueTests): void {
  describe('selecting', () => {
    it('finds unfinished tasks that match all fields, in the order of acceptance', async (queue) => {
      const select = async (filter: Partial<TaskFilter>) =>
        (await queue.store.select({ until: queue.now, ...filter }, -1, 100)).ids.join('');
      await queue.discard('x');
      await queue.store.publish({ ...messageOf('a', 'resize'), priority: 5 });
      await queue.store.publish({ ...messageOf('b', 'resize'), limitKey: 'acme' });
      await queue.store.publish({ ...messageOf('c', 'mail'), limitKey: 'acme' });
      await queue.store.publish({ ...messageOf('d', 'mail'), runAt: queue.now + 50 });
      await queue.store.publish({ ...messageOf('e'), schedule: 'nightly' });
      expect(await select({})).to.equal('abcde');
      expect(await select({ action: 'resize' })).to.equal('ab');
      expect(await select({ limitKey: 'acme' })).to.equal('bc');
      expect(await select({ action: 'mail', limitKey: 'acme' })).to.equal('c');
      expect(await select({ state: 'scheduled' })).to.equal('d');
      expect(await select({ schedule: 'nightly' })).to.equal('e');
      expect(await select({ action: 'none' })).to.equal('');
      const [first, second] = await queue.takeAll(2);
      expect(await select({ state: 'running' })).to.equal([...idsOf([first, second])].sort().join(''));
      await queue.settle(first, retry(queue.now + 50));
      await queue.settle(second, discard());
      expect(await select({ state: 'retrying' })).to.equal(first.id);
      queue.now += 1;
      await queue.publish('f');
      expect(await select({ until: queue.now - 1, action: 'sum' })).to.not.include('f');
    });

    it('continues after a position, and stops at a limit', async (queue) => {
      await queue.publish('abcde');
      const filter = { until: queue.now };
      const page = await queue.store.select(filter, -1, 2);
      expect(page.ids.join('')).to.equal('ab');
      const rest = await queue.store.select(filter, page.next ?? 0, 9);
      expect(rest.ids.join('')).to.equal('cde');
      for (let { next } = rest; next !== undefined; ) {
        const empty = await queue.store.select(filter, next, 9);
        expect(empty.ids).to.deep.equal([]);
        next = empty.next;
      }
    });
  });
}
