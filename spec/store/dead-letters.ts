import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../db/attempt-history.ts';
import type { Position, SearchFilter } from '../../db/task-rows.ts';
import { deadLetterBounds } from '../../db/task-store.ts';
import { complete, discard, retry } from './settlements.ts';
import { idsOf, messageOf, numbers, type QueueTests, START, sorted } from './stage.ts';
import { boundDeadLetters, purgeIn, redriveIn } from './store-calls.ts';

const SIZE = Buffer.byteLength(messageOf('a').body);

/** Conformance specs of dead letters: listing, redriving, purging, and their bounds. */
export function describeDeadLetters({ it, itWith }: QueueTests): void {
  describe('dead letters', () => {
    it('are listed page by page, the last to fail first, or of one millisecond the last to arrive', async (queue) => {
      await queue.discard('bAcDeF');
      await queue.publish('xyz');
      await queue.settleAll((await queue.takeAll(3)).toReversed(), discard('x'));
      expect(await queue.letterIds()).to.equal('bAcDeFxyz');
      const page = async (filter: SearchFilter, after?: Position) =>
        queue.store.reads.search({ state: 'failed', ...filter }, after, 4);
      const first = await page({});
      const second = await page({}, first.next);
      const last = await page({}, second.next);
      expect([first, second, last].map(({ found }) => idsOf(found))).to.deep.equal(['zyxF', 'eDcA', 'b']);
      for (const [reasons, ids] of [
        [['bad data'], 'ecb'],
        [['timeout', 'none'], 'FDA'],
        [['none'], ''],
      ] as const)
        expect(idsOf((await page({ reasons })).found)).to.equal(ids);
    });

    it('tell when and why they failed', async (queue) => {
      const [a, b] = await queue.running('ab');
      queue.now += 1;
      await queue.settle(a, discard('bad data'));
      queue.now += 1;
      await queue.settle(b, discard('timeout', 'transient'));
      const common = { state: 'failed', acceptedAt: START, attempts: 1 };
      const [first, second] = await queue.letters();
      expect(first).to.include({ ...common, reason: 'bad data', failedAt: START + 1, isPermanent: true });
      expect(second).to.include({ ...common, reason: 'timeout', failedAt: START + 2, isPermanent: false });
      const { found } = await queue.store.reads.failures({}, undefined, 9);
      const told = found.map(({ id, action, reason, failedAt, permanent }) => [
        ...[id, action, reason, failedAt - START, Boolean(permanent)],
      ]);
      expect(told).to.deep.equal([
        ['b', 'sum', 'timeout', 2, false],
        ['a', 'sum', 'bad data', 1, true],
      ]);
    });

    it('are redriven to the end of the queue, with no attempts, and keep the time of their acceptance', async (queue) => {
      await queue.store.publish({ ...messageOf('a'), traceparent: 'trace' });
      await queue.settle(await queue.next(), retry(queue.now, 'no', 'crash'));
      await queue.settle(await queue.next(), discard('no'));
      await queue.discard('b');
      const { acceptedAt } = await queue.message('a');
      await queue.publish('c');
      queue.now += 10;
      const { bytes } = await queue.store.counts();
      const done = [{ id: 'a', action: 'sum' }];
      expect(await redriveIn(queue.store, { ids: ['a'] })).to.deep.equal({ done, remaining: 0 });
      expect(await queue.letterIds()).to.equal('b');
      await queue.expectCounts({ accepted: 3, dead: 1, waiting: 2, bytes: 2 * bytes });
      const nothing = { attempts: 0, reason: null, history: NO_ATTEMPTS, failedAt: undefined, isPermanent: false };
      expect(await queue.message('a')).to.deep.include(nothing);
      const [c, a] = await queue.takeAll(2);
      expect(c.id).to.equal('c');
      const first = { attempt: 1, crashes: 0, isSuspect: false, history: NO_ATTEMPTS };
      expect(a).to.deep.include({ id: 'a', ...first, traceparent: 'trace' });
      await queue.settle(a, discard('again'));
      expect(await queue.message('a')).to.include({ attempts: 1, reason: 'again', acceptedAt });
      expect(await queue.letterIds()).to.equal('ba');
    });

    it('are each redriven or purged once, which counts as dropped, also by concurrent calls', async (queue) => {
      await queue.discard('aBcDeFgh');
      await queue.publish('w');
      const [ids, remaining] = await queue.redrive({ ids: ['e', 'a', 'a', 'w', 'x', '', '__proto__'] });
      expect([sorted(ids), remaining]).to.deep.equal(['ae', 0]);
      expect(await queue.redrive({ reason: 'timeout' })).to.deep.equal(['BDF', 0]);
      expect(await queue.letterIds()).to.equal('cgh');
      const done = [{ id: 'c', action: 'sum' }];
      expect(await purgeIn(queue.store, { ids: ['c', 'c', 'w', 'x'] })).to.deep.equal({ done, remaining: 0 });
      expect(await queue.store.reads.find('c')).to.equal(undefined);
      const { store } = queue;
      const results = await Promise.all([
        redriveIn(store, { all: true }),
        redriveIn(store, { ids: ['g'] }),
        purgeIn(store, { ids: ['g', 'h'] }),
      ]);
      expect(sorted(results.map((each) => idsOf(each.done)).join(''))).to.equal('gh');
      expect(await purgeIn(queue.store, { all: true })).to.deep.equal({ done: [], remaining: 0 });
      await queue.expectCounts({ accepted: 9, dead: 0, evicted: 0 });
    });

    itWith({ maxLength: 5000 }, 'are redriven at a pace, which goes on over slices', async (queue) => {
      const ids = numbers(1002);
      await queue.store.publishAll(ids.map((id) => ({ message: messageOf(id), key: undefined })));
      await queue.settleAll(await queue.takeAll(1002), discard('timeout'));
      const pace = { from: queue.now, intervalMs: 2.5 };
      const { done } = await redriveIn(queue.store, { all: true }, undefined, pace);
      const dueOf = async (index: number) => (await queue.message(done[index]?.id ?? ''))?.runAt;
      const due = await Promise.all([0, 1, 999, 1000, 1001].map(dueOf));
      expect(due.map((runAt = 0) => runAt - queue.now)).to.deep.equal([0, 2, 2497, 2500, 2502]);
      await queue.expectCounts({ accepted: 1002, dead: 0, scheduled: 1002, waiting: 0 });
      expect((await queue.takeAll(1)).map(({ id, attempt }) => [id, attempt])).to.deep.equal([[done[0]?.id, 1]]);
      queue.now += 2503;
      await queue.takeAll(1);
    });

    itWith({ maxLength: 5 }, 'fill the queue up to its number, oldest first, and the others stay', async (queue) => {
      await queue.discard('abcdef');
      await queue.publish('XYZ');
      expect(await queue.redrive({ all: true })).to.deep.equal(['ab', 4]);
      expect(await queue.redrive({ all: true })).to.deep.equal(['', 4]);
      expect(await queue.redrive({ ids: ['c'] })).to.deep.equal(['', 1]);
      await queue.expectCounts({ accepted: 9, dead: 4, waiting: 5 });
      expect(await queue.letterIds()).to.equal('cdef');
    });

    itWith({ maxBytes: 3 * SIZE }, 'fill the queue up to its size', async (queue) => {
      await queue.discard('abcd');
      await queue.publish('X');
      expect(await queue.redrive({ all: true })).to.deep.equal(['ab', 2]);
      await queue.expectCounts({ bytes: 3 * SIZE });
    });

    it('are redriven and purged in slices, all that were there when it began and no others', async (queue) => {
      await queue.publishTogether(numbers(1100));
      const discardTaken = async () => {
        queue.now += 1;
        const deliveries = await queue.take(2000);
        await queue.settleAll(deliveries, discard());
        return deliveries.length;
      };
      expect(await discardTaken()).to.equal(1100);
      let isOver = false;
      const redriven = redriveIn(queue.store, { all: true }).finally(() => {
        isOver = true;
      });
      let again = 0;
      while (!isOver) {
        again += await discardTaken();
        await new Promise(setImmediate);
      }
      const { done, remaining } = await redriven;
      expect([new Set(done.map(({ id }) => id)).size, done.length, remaining]).to.deep.equal([1100, 1100, 0]);
      again += await discardTaken();
      expect(again).to.equal(1100);
      await queue.expectCounts({ accepted: 1100, dead: 1100, waiting: 0 });
      expect((await purgeIn(queue.store, { all: true })).done).to.have.length(1100);
      await queue.expectCounts({ accepted: 1100, dead: 0, dropped: 1100 });
    });

    it('are redriven in slices of a MiB, but at least one', async (queue) => {
      for (const id of 'abcd') {
        const text = 'x'.repeat(id === 'd' ? 1_100_000 : 500_000);
        await queue.store.publish(messageOf(id, 'sum', { text }));
      }
      await queue.settleAll(await queue.takeAll(4), discard());
      const slices: string[] = [];
      await redriveIn(queue.store, { all: true }, (tasks) => slices.push(idsOf(tasks)));
      expect(slices).to.deep.equal(['ab', 'c', 'd']);
    });

    it('make room for newer ones beyond their size, the oldest first, and say which', async (queue) => {
      boundDeadLetters({ maxBytes: 40_000 });
      const discardOne = async (id: string, size: number) => {
        queue.now += 1;
        await queue.store.publish(messageOf(id, 'sum', { text: 'x'.repeat(size) }));
        return queue.settleAll([await queue.next()], discard());
      };
      const evicted: string[][] = [];
      for (const id of 'abcdef') evicted.push(await discardOne(id, 10_000));
      expect(evicted).to.deep.equal([[], [], [], ['a'], ['b'], ['c']]);
      expect(await queue.letterIds()).to.equal('def');
      await queue.expectCounts({ accepted: 6, dead: 3, dropped: 3, evicted: 3, bytes: 0 });
      await queue.purge({ all: true });
      await queue.expectCounts({ dropped: 6, evicted: 3 });
      expect(await discardOne('g', 40_000)).to.deep.equal(['g']);
      await queue.expectCounts({ dead: 0, dropped: 7, evicted: 4 });
    });

    it('make room for newer ones beyond their number', async (queue) => {
      expect(deadLetterBounds).to.deep.equal({ maxLength: 10_000, maxBytes: 32 * 1024 * 1024 });
      boundDeadLetters({ maxLength: 4 });
      await queue.discard('abcd');
      const [x, y, z] = await queue.running('xyz');
      queue.now += 1;
      await queue.settle(y, complete());
      expect(await queue.settleAll([x, z], discard())).to.deep.equal(['a', 'b']);
      await queue.expectCounts({ dead: 4, dropped: 2, evicted: 2, completed: 1 });
      expect(await queue.letterIds()).to.equal('cdxz');
    });
  });
}
