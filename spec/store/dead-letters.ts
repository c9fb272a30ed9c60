import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../db/attempt-history.ts';
import type { Position, SearchFilter } from '../../db/task-rows.ts';
import { deadLetterBounds } from '../../db/task-store.ts';
import { complete, discard, retry } from './settlements.ts';
import { idsOf, messageOf, numbers, type QueueTests, START, sorted } from './stage.ts';
import { boundDeadLetters, purgeIn, redriveIn } from './store-calls.ts';

const SIZE = Buffer.byteLength(messageOf('a').body);

export function describeDeadLetters({ it }: QueueTests): void {
  it('dead letters are listed page by page, the last to fail first, or of one millisecond the last to arrive', async (queue) => {
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
    const found = async (...reasons: string[]) => idsOf((await page({ reasons })).found);
    expect([await found('bad data'), await found('none')]).to.deep.equal(['ecb', '']);
    expect(await found('timeout', 'none')).to.equal('FDA');
  });

  it('dead letters tell when and why they failed', async (queue) => {
    const [a, b] = await queue.running('ab');
    queue.now += 1;
    await queue.settle(a, discard('bad data'));
    queue.now += 1;
    await queue.settle(b, discard('timeout', 'transient'));
    const common = { state: 'failed', acceptedAt: START, attempts: 1 };
    const [first, second] = [await queue.message('a'), await queue.message('b')];
    expect(first).to.include({ ...common, reason: 'bad data', failedAt: START + 1, isPermanent: true });
    expect(second).to.include({ ...common, reason: 'timeout', failedAt: START + 2, isPermanent: false });
    const told = (await queue.store.reads.failures({}, undefined, 9)).found.map((each) =>
      [each.id, each.action, each.reason, each.failedAt, Boolean(each.permanent)].join(),
    );
    expect(told).to.deep.equal([`b,sum,timeout,${START + 2},false`, `a,sum,bad data,${START + 1},true`]);
  });

  it('dead letters are redriven to the end of the queue, with no attempts, and keep the time of their acceptance', async (queue) => {
    await queue.settleAll(await queue.running('a', { traceparent: 'trace' }), retry(queue.now, 'no', 'crash'));
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
    const first = { attempt: 1, crashes: 0, isSuspect: false, history: NO_ATTEMPTS };
    expect(a).to.deep.include({ id: 'a', ...first, traceparent: 'trace' });
    expect(c.id).to.equal('c');
    await queue.settle(a, discard('again'));
    expect(await queue.message('a')).to.include({ attempts: 1, reason: 'again', acceptedAt });
    expect(await queue.letterIds()).to.equal('ba');
  });

  it('dead letters are each redriven or purged once, which counts as dropped, also by concurrent calls', async (queue) => {
    await queue.discard('aBcDeFgh');
    await queue.publish('w');
    const [ids, remaining] = await queue.redrive({ ids: ['e', 'a', 'a', 'w', 'x', '', '__proto__'] });
    expect([sorted(ids), remaining]).to.deep.equal(['ae', 0]);
    expect(await queue.redrive({ reason: 'timeout' })).to.deep.equal(['BDF', 0]);
    expect(await queue.letterIds()).to.equal('cgh');
    const done = [{ id: 'c', action: 'sum' }];
    expect(await purgeIn(queue.store, { ids: ['c', 'c', 'w', 'x'] })).to.deep.equal({ done, remaining: 0 });
    expect(await queue.store.reads.find('c')).to.equal(undefined);
    const [[all], [g], purged] = await Promise.all([
      queue.redrive({ all: true }),
      queue.redrive({ ids: ['g'] }),
      queue.purge({ ids: ['g', 'h'] }),
    ]);
    expect(sorted(all + g + purged)).to.equal('gh');
    expect(await queue.purge({ all: true })).to.equal('');
    await queue.expectCounts({ accepted: 9, dead: 0, evicted: 0 });
  });

  it('dead letters are redriven at a pace, which goes on over slices', async (queue) => {
    await queue.publishTogether(numbers(1002));
    await queue.settleAll(await queue.takeAll(1002), discard());
    const { done } = await redriveIn(queue.store, { all: true }, undefined, { from: queue.now, intervalMs: 2.5 });
    const delayOf = async (index: number) => (await queue.message(done[index]?.id ?? '')).runAt - queue.now;
    expect(await Promise.all([0, 1, 999, 1000, 1001].map(delayOf))).to.deep.equal([0, 2, 2497, 2500, 2502]);
    await queue.expectCounts({ accepted: 1002, dead: 0, scheduled: 1002, waiting: 0 });
    const [first, ...others] = await queue.take(2);
    expect(first).to.include({ id: done[0]?.id, attempt: 1 });
    expect(others).to.deep.equal([]);
    queue.now += 2503;
    await queue.takeAll(1);
  });

  for (const bounds of [{ maxLength: 5 }, { maxBytes: 6 * SIZE - 1 }])
    it(`dead letters fill the queue up to its ${Object.keys(bounds)}, oldest first, and the others stay`, async (queue) => {
      await queue.restart(bounds);
      await queue.discard('abcdef');
      await queue.publish('XYZ');
      expect(await queue.redrive({ all: true })).to.deep.equal(['ab', 4]);
      expect(await queue.redrive({ all: true })).to.deep.equal(['', 4]);
      expect(await queue.redrive({ ids: ['c'] })).to.deep.equal(['', 1]);
      await queue.expectCounts({ accepted: 9, dead: 4, waiting: 5, bytes: 5 * SIZE });
      expect(await queue.letterIds()).to.equal('cdef');
    });

  it('dead letters are redriven and purged in slices, all that were there when it began and no others', async (queue) => {
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
    await queue.publishTogether(numbers(1100));
    await discardTaken();
    boundDeadLetters({ maxBytes: 1 });
    expect(await queue.settleAll(await queue.running('x'), discard())).to.have.length(1101);
    await queue.expectCounts({ accepted: 2201, dead: 0, dropped: 2201, evicted: 1101 });
  });

  it('dead letters are redriven in slices of a MiB, but at least one', async (queue) => {
    for (const [id, size] of Object.entries({ a: 5e5, b: 5e5, c: 5e5, d: 1.1e6 }))
      await queue.publish(id, { body: messageOf(id, 'sum', { text: 'x'.repeat(size) }).body });
    await queue.settleAll(await queue.takeAll(4), discard());
    const slices: string[] = [];
    await redriveIn(queue.store, { all: true }, (tasks) => slices.push(idsOf(tasks)));
    expect(slices).to.deep.equal(['ab', 'c', 'd']);
  });

  it('dead letters make room for newer ones beyond their size, also after a restart, the oldest first, and say which', async (queue) => {
    const discardOne = async (id: string, size: number) => {
      queue.now += 1;
      const { body } = messageOf(id, 'sum', { text: 'x'.repeat(size) });
      return queue.settleAll(await queue.running(id, { body }), discard());
    };
    const evicted = [await discardOne('a', 10_000)];
    const [{ bytes } = { bytes: 0 }] = (await queue.store.reads.search({}, undefined, 1)).found;
    boundDeadLetters({ maxBytes: 3 * bytes });
    for (const id of 'bcde') evicted.push(await discardOne(id, 10_000));
    boundDeadLetters({ maxBytes: 4 * bytes - 1 });
    evicted.push(await discardOne('f', 10_000));
    expect(evicted).to.deep.equal([[], [], [], ['a'], ['b'], ['c']]);
    expect(await queue.letterIds()).to.equal('def');
    await queue.expectCounts({ accepted: 6, dead: 3, dropped: 3, evicted: 3, bytes: 0 });
    await queue.purge({ all: true });
    await queue.expectCounts({ dropped: 6, evicted: 3 });
    expect(await discardOne('g', 4 * bytes)).to.deep.equal(['g']);
    await queue.expectCounts({ dead: 0, dropped: 7, evicted: 4 });
    boundDeadLetters({ maxBytes: bytes });
    expect(await discardOne('h', 10_000)).to.deep.equal([]);
    await queue.restart();
    expect(await discardOne('i', 10_000)).to.deep.equal(['h']);
  });

  it('dead letters make room for newer ones beyond their number', async (queue) => {
    expect(deadLetterBounds).to.deep.equal({ maxLength: 10_000, maxBytes: 32 * 1024 * 1024 });
    boundDeadLetters({ maxLength: 4 });
    // They arrive before the others, and fail after them.
    const [x, y, z] = await queue.running('xyz');
    await queue.discard('abcd');
    queue.now += 1;
    await queue.settle(y, complete());
    expect(await queue.settleAll([x, z], discard())).to.deep.equal(['a', 'b']);
    await queue.expectCounts({ dead: 4, dropped: 2, evicted: 2, completed: 1 });
    expect(await queue.letterIds()).to.equal('cdxz');
  });
}
