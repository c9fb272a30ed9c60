import { expect } from 'chai';
import { UnknownPosition } from '../../db/search.ts';
import type { Position, SearchFilter } from '../../db/task-rows.ts';
import { complete, discard, errorOf, idsOf, messageOf, numbers, type QueueTests, retry, START } from './stage.ts';

const ID = '0123abcd-0000-4000-8000-00000000000';

/** Conformance specs of the search for tasks. */
export function describeSearching({ it, itWith }: QueueTests): void {
  describe('searching', () => {
    it('finds unfinished tasks that match all fields, the last accepted first', async (queue) => {
      const located = (filter: SearchFilter) => queue.located({ until: queue.now, ...filter });
      await queue.discard('x');
      await queue.store.publish({ ...messageOf('a', 'resize'), priority: 5 });
      await queue.store.publish({ ...messageOf('b', 'resize'), limitKey: 'ü\0' });
      await queue.store.publish({ ...messageOf('c', 'mail'), limitKey: 'ü\0' });
      await queue.store.publish({ ...messageOf('d', 'mail'), runAt: queue.now + 50 });
      await queue.store.publish({ ...messageOf('e'), schedule: 'nightly' });
      expect(await located({})).to.equal('edcbax');
      expect(await located({ state: 'unfinished' })).to.equal('edcba');
      expect(await located({ action: 'resize' })).to.equal('ba');
      expect(await located({ action: 'mail', state: 'waiting' })).to.equal('c');
      expect(await located({ limitKey: 'ü\0' })).to.equal('cb');
      expect(await located({ action: 'mail', limitKey: 'ü\0' })).to.equal('c');
      expect(await located({ state: 'scheduled' })).to.equal('d');
      expect(await located({ schedule: 'nightly' })).to.equal('e');
      expect(await located({ schedule: '\0' })).to.equal('');
      expect(await located({ action: 'none' })).to.equal('');
      expect(await located({ ids: ['c', 'a', 'y', '\0'] })).to.equal('ca');
      const [first, second] = await queue.takeAll(2);
      expect(await located({ state: 'running' })).to.equal([...idsOf([first, second])].sort().join(''));
      await queue.settle(first, retry(queue.now + 50));
      await queue.settle(second, discard());
      expect(await located({ state: 'retrying' })).to.equal(first.id);
      expect(await located({ state: 'failed' })).to.equal(`${second.id}x`);
      queue.now += 1;
      await queue.publish('f');
      expect(await located({ until: queue.now - 1, action: 'sum' })).to.equal('ex');
      expect(await located({ since: queue.now, until: undefined })).to.equal('f');
    });

    it('finds a text in the action, the data, the output and the reason, and nowhere else', async (queue) => {
      const data = { order: 'SKU-20468', note: '100 % "sure" \\ ünï_x' };
      await queue.store.publish(messageOf('a', 'order', data));
      await queue.store.publish(messageOf('b', 'SKU', { note: 'uni-x' }));
      await queue.settleAll(await queue.takeAll(2), discard('Card "4711" 50 % declined'));
      await queue.store.publish(messageOf(`${ID}c`, 'order', data));
      await queue.settle(await queue.next(), complete('DONE €'));
      const { store } = queue;
      const located = async (text: string) => {
        const rows = await store.rows.search({ text }, undefined, 9);
        return (await queue.located({ text })) + rows.found.map(({ id }) => id.slice(-1)).join('');
      };
      for (const text of ['SKU-20468', 'sku-2', '"sure"', '100 %', '\\ ü', 'order', 'ünï_x'])
        expect(await located(text), text).to.equal('ac');
      expect(await located('done €')).to.equal('c');
      for (const text of ['"4711"', 'card', '50 % d']) expect(await located(text), text).to.equal('ba');
      for (const text of ['created_at', `${START / 1000}`, '"action', 'output', 'SKU_2', '1%0', '\0'])
        expect(await located(text), text).to.equal('');
    });

    it('finds rows that match all fields, the last accepted first', async (queue) => {
      const { store } = queue;
      for (const [index, action] of ['a', 'a', 'ü"', 'a'].entries()) {
        queue.now += 1000;
        const id = `${ID}${index}`;
        const body = messageOf(id, action).body.replace(`${START / 1000}`, `${queue.now / 1000}`);
        await store.publish({
          ...messageOf(id, action),
          body,
          limitKey: index > 1 ? 'acme' : undefined,
          submitter: 'al',
        });
        await queue.settle(await queue.next(), complete());
      }
      const located = async (filter: SearchFilter, after?: Position, limit = 9) => {
        const { found } = await store.rows.search(filter, after, limit);
        return found.map(({ id }) => id.slice(-1)).join('');
      };
      expect(await located({})).to.equal('3210');
      expect(await located({ action: 'a' })).to.equal('310');
      expect(await located({ action: 'ü"' })).to.equal('2');
      expect(await located({ limitKey: 'acme', action: 'a' })).to.equal('3');
      expect(await located({ view: { limit_key: 'acme' } })).to.equal('32');
      expect(await located({ view: { submitter: 'al' }, action: 'a' })).to.equal('310');
      expect(await located({ view: { submitter: 'bob' } })).to.equal('');
      expect(await located({ view: { id: `${ID}1` } })).to.equal('1');
      expect(await located({ since: START + 2000, until: START + 3500 })).to.equal('21');
      expect(await located({ idPrefix: '0123abc' })).to.equal('0123');
      expect(await located({ idPrefix: `${ID}2` })).to.equal('2');
      expect(await located({ idPrefix: '0124' })).to.equal('');
      const { next } = await store.rows.search({ action: 'a' }, undefined, 2);
      expect(await located({ action: 'a' }, next)).to.equal('0');
      expect(await errorOf(() => located({ idPrefix: '0' }, next))).to.be.instanceOf(UnknownPosition);
    });

    it('finds only the tasks of a view', async (queue) => {
      const { store } = queue;
      for (const id of 'ab') await store.publish({ ...messageOf(id), limitKey: 'acme', submitter: `user ${id}` });
      await store.publish({ ...messageOf('c', 'callback'), limitKey: 'acme' });
      await store.publish(messageOf(`${ID}0`));
      expect(await queue.located({ view: { limit_key: 'acme' } })).to.equal('ba');
      expect(await queue.located({ limitKey: 'acme' })).to.equal('cba');
      expect(await queue.located({ view: { submitter: 'user a' } })).to.equal('a');
      expect(await queue.located({ view: { id: 'b' } })).to.equal('b');
      expect(await queue.located({ view: { id: 'b' }, idPrefix: '0' })).to.equal('');
      expect(await queue.located({ idPrefix: '0123abcd-0' })).to.equal(`${ID}0`);
    });

    it('counts the messages of each action and state', async (queue) => {
      const { store } = queue;
      for (const id of 'abcd') await store.publish(messageOf(id, id === 'd' ? 'ü"' : 'mail'));
      await queue.settle(await queue.next(), discard());
      const { found, next } = await store.countActions(undefined);
      const counted = found.map(({ action, state, count }) => `${action} ${state} ${count}`);
      expect(counted.sort()).to.deep.equal(['mail failed 1', 'mail waiting 2', 'ü" waiting 1']);
      expect(await store.countActions(next)).to.deep.equal({ found: [], next: undefined });
    });

    itWith({ maxLength: 7000 }, 'reads a bounded number of tasks, and continues after them', async (queue) => {
      for (let from = 0; from < 7000; from += 1000)
        await queue.store.publishAll(numbers(1000, from).map((id) => ({ message: messageOf(id), key: undefined })));
      for (const filter of [{}, { text: 'x' }, { state: 'waiting' }] as const) {
        const first = await queue.store.search({ ...filter, action: 'none' }, undefined, 9);
        expect(first.found).to.deep.equal([]);
        expect(first.next).to.have.length('state' in filter ? 4 : 1);
        const rest = await queue.store.search(filter.state ? filter : {}, first.next, 9000);
        expect(rest.found).to.have.length(2000);
      }
    });
  });
}
