import { expect } from 'chai';
import type { ActionLimits, Delivery } from '../../db/task-store.ts';
import { SeededRandom } from '../support/random.ts';
import { complete, discard, release, retry } from './settlements.ts';
import { idsOf, numbers, type QueueTests, START, type TestQueue } from './stage.ts';
import { redriveIn, searchIn } from './store-calls.ts';

const setLimits = (queue: TestQueue, limits: ActionLimits | undefined, action = 'sum') =>
  queue.store.setLimits(action, limits, 'api');
const publish = (queue: TestQueue, ids: Iterable<string>, limitKey?: string, action?: string, priority?: number) =>
  queue.publishTogether([...ids], { limitKey, action: action ?? 'sum', priority });
const reportStart = (queue: TestQueue, delivery: Delivery, startedAt = queue.now) =>
  queue.store.report([{ delivery, startedAt, progress: undefined }]);

/** Takes and completes one message after another. Returns their ids. */
async function run(queue: TestQueue, count: number, before = async (_: number) => {}): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    await before(index);
    const delivery = await queue.next();
    ids.push(delivery.id);
    await queue.settle(delivery, complete());
  }
  return ids;
}

export function describeLimits({ it, driver: { isDurable, read } }: QueueTests): void {
  it('limit keys take turns within a priority, and each keeps the order of its messages', async (queue) => {
    await publish(queue, 'abcdef', 'one');
    await publish(queue, 'ghi', 'two');
    await publish(queue, 'jk');
    await publish(queue, 'xy', 'one', 'sum', 1);
    await publish(queue, 'z', 'two', 'sum', 1);
    expect([await queue.takeIds(8), await queue.takeIds(20)]).to.deep.equal(['xzyagjbh', 'kcidef']);
    expect(await queue.message('a')).to.include({ limitKey: 'one', state: 'running' });
    expect((await queue.message('j')).limitKey).to.equal(undefined);
  });

  for (const crowd of ['crowd', undefined])
    it(`limit keys let one that submits its next message after its last one pass the crowd ${crowd ?? 'without a key'}`, async (queue) => {
      await publish(queue, 'bcdefghijk', crowd);
      const taken: string[] = [];
      for (const id of numbers(6)) {
        await publish(queue, [id], 'lone');
        while (taken.at(-1) !== id) taken.push(...(await run(queue, 1)));
      }
      expect(taken.length).to.be.within(11, 13);
    });

  it('limit keys start at the present round again, once nothing of them waits', async (queue) => {
    await publish(queue, 'abcdefg', 'one');
    for (const id of 'bcdefg') await queue.cancel(id);
    expect(await queue.takeIds(1)).to.equal('a');
    await publish(queue, 'h', 'one');
    await publish(queue, 'i', 'two');
    expect(await queue.takeIds(5)).to.equal('hi');
  });

  it('limit keys go to the end of their key when they are due, redriven or run now, and keep their place when they are released', async (queue) => {
    const [a, b] = await queue.running('ab', { limitKey: 'one' });
    await queue.publish('s', { limitKey: 'one', runAt: queue.now + 5 });
    await queue.publish('t', { limitKey: 'one', runAt: queue.now + 5000 });
    await publish(queue, 'cd', 'one');
    await queue.settle(a, discard());
    await redriveIn(queue.store, { ids: ['a'] });
    await queue.store.runNow('t');
    await publish(queue, 'xyz', 'two');
    await queue.settle(b, release);
    queue.now += 5;
    expect(await queue.takeIds(20)).to.equal('bcxdyazts');
  });

  it('limit keys keep their rounds over a restart', async (queue) => {
    await publish(queue, 'abcdef', 'one');
    await publish(queue, 'uvw');
    expect(await queue.takeIds(2)).to.equal('au');
    await queue.restart();
    await publish(queue, 'gh', 'two');
    await publish(queue, 'x');
    expect(await queue.takeIds(6)).to.equal('augbvh');
  });

  it('a limit of an action lets no more messages run at once, and others pass', async (queue) => {
    await setLimits(queue, { concurrency: 2 });
    await publish(queue, 'abcde');
    await publish(queue, 'xy', undefined, 'other');
    await queue.expectCounts({ waiting: 4, limited: 3 });
    expect(await queue.located({ state: 'limited' })).to.equal('cde');
    expect(await queue.message('c')).to.include({ state: 'limited', limitedBy: 'action' });
    const [a, b, x] = await queue.takeAll(4);
    expect([idsOf([a, b, x]), await queue.takeIds(5)]).to.deep.equal(['abx', '']);
    await queue.settle(a, complete());
    expect(await queue.takeIds(5)).to.equal('c');
    await queue.settle(b, discard());
    expect(await queue.takeIds(5)).to.equal('d');
    expect([await queue.purge({ all: true }), await queue.takeIds(5)]).to.deep.equal(['b', '']);
    await queue.expectCounts({ waiting: 0, limited: 1, inFlight: 4 });
  });

  it('a limit of an action holds for what waits already, and after it was lowered, raised and removed', async (queue) => {
    await publish(queue, 'abcdefgh');
    const [a, b, c] = await queue.takeAll(3);
    await setLimits(queue, { concurrency: 4 });
    await queue.expectCounts({ waiting: 1, limited: 4, inFlight: 3 });
    expect(await queue.takeIds(9)).to.equal('d');
    await setLimits(queue, { concurrency: 2 });
    await queue.settleAll([a, b], complete());
    await queue.settle(c, release);
    const again = await queue.next();
    expect([again.id, await queue.settle(c, complete())]).to.deep.equal(['c', 'late']);
    expect(await queue.takeIds(9)).to.equal('');
    await queue.settle(again, complete());
    expect(await queue.takeIds(9)).to.equal('e');
    await setLimits(queue, { concurrency: 3 });
    expect(await queue.takeIds(9)).to.equal('f');
    const stored = { action: 'sum', limits: { concurrency: 3 }, source: 'api' };
    expect(await queue.store.limits()).to.deep.equal([{ ...stored, use: { running: 3, nextStartAt: undefined } }]);
    await setLimits(queue, undefined);
    expect([await queue.takeIds(9), await queue.store.limits()]).to.deep.equal(['gh', []]);
    await queue.expectCounts({ limited: 0, inFlight: 5 });
  });

  it('a limit of each key lets others pass, and holds for no message without a key', async (queue) => {
    await setLimits(queue, { perKey: { concurrency: 1 } });
    await publish(queue, 'abc', 'one');
    await publish(queue, 'de', 'two');
    await publish(queue, 'xyz');
    expect(await queue.message('b')).to.include({ state: 'limited', limitedBy: 'key', limitKey: 'one' });
    const taken = await queue.takeAll(5);
    expect(idsOf(taken)).to.equal('adxyz');
    await queue.expectCounts({ limited: 3 });
    await queue.settle(taken[1], complete());
    expect(await queue.takeIds(9)).to.equal('e');
    const none = { concurrency: undefined, rate: undefined, nextStartAt: undefined };
    expect(await queue.store.limitOf('sum', 'one')).to.deep.equal({ ...none, concurrency: 1, running: 1 });
    expect(await queue.store.limitOf('sum')).to.deep.equal({ ...none, running: 5 });
  });

  it('a limit of each key gives its place to the first by priority, then by round', async (queue) => {
    await setLimits(queue, { concurrency: 1 });
    await publish(queue, 'abc', 'one');
    await publish(queue, 'd', 'two');
    await queue.publish('e', { priority: 1 });
    expect((await run(queue, 5)).join('')).to.equal('aebdc');
  });

  it('a cancelled message that waits only for its action gives the place of its key to the next', async (queue) => {
    await setLimits(queue, { concurrency: 1, perKey: { concurrency: 1 } });
    await publish(queue, 'x');
    for (const id of 'ab') await publish(queue, id, 'one');
    await queue.cancel('a');
    expect(await run(queue, 2)).to.deep.equal(['x', 'b']);
  });

  if (isDurable)
    it('a limit of each key keeps nothing of a key without a task', async (queue) => {
      await setLimits(queue, { perKey: { concurrency: 1 } });
      for (const limitKey of 'ab') await queue.settleAll(await queue.running(limitKey, { limitKey }), complete());
      await publish(queue, 'c', 'c').then(() => queue.cancel('c'));
      expect(await read(queue.store, 'SELECT limit_key FROM limit_uses')).to.deep.equal([]);
    });

  it('limited messages hold up no other task of their key', async (queue) => {
    await setLimits(queue, { concurrency: 1 });
    await publish(queue, numbers(30));
    await publish(queue, numbers(30, 30), 'one');
    await publish(queue, numbers(30, 60), 'two', 'other');
    await publish(queue, 'x', undefined, 'other');
    await publish(queue, 'y', 'one', 'other');
    const taken = (await queue.take(40)).map(({ id }) => id);
    for (const id of 'xy') expect(taken.indexOf(id)).to.be.within(0, 5);
  });

  for (const limits of [{ concurrency: 1 }, { perKey: { concurrency: 1 } }])
    it(`limited messages let none wait forever, whatever its priority and key: ${JSON.stringify(limits)}`, async (queue) => {
      await setLimits(queue, limits);
      await publish(queue, 'a', 'one');
      queue.now += 1;
      await queue.publish('x', { priority: 5, limitKey: 'one' });
      await queue.publish('yz', { limitKey: 'one' });
      const ids = await run(queue, 60, async (index) => {
        queue.now += 1;
        await queue.publish([`${index}`], { priority: 1, limitKey: 'one' });
      });
      expect(ids).to.include.members([...'xyz']);
    });

  it('a rate lets no more messages start in any period, and tells when the next one can', async (queue) => {
    const rate = { count: 2, ms: 1000 };
    await setLimits(queue, { rate });
    await publish(queue, 'a');
    const a = await queue.next();
    expect(a.isRated).to.equal(true);
    queue.now += 100;
    // A report is repeated while the attempt goes on.
    for (let report = 0; report < 2; report++) await reportStart(queue, a);
    expect((await queue.store.limitOf('sum')).nextStartAt, 'of two starts').to.equal(undefined);
    await publish(queue, 'bcde');
    const b = await queue.next();
    queue.now += 100;
    await reportStart(queue, b);
    await queue.settle(a, complete());
    expect(await queue.store.take(5, false)).to.deep.equal({ deliveries: [], nextRunAt: START + 1100 });
    expect(await queue.store.limitOf('sum')).to.deep.include({ rate, running: 1, nextStartAt: START + 1100 });
    expect(await queue.takenAt(START + 1099)).to.equal('');
    queue.now = START + 1100;
    const c = await queue.next();
    expect(await queue.takeIds(9)).to.equal('');
    await reportStart(queue, c);
    expect(await queue.takenAt(START + 1200)).to.equal('d');
    await queue.expectCounts({ limited: 1, inFlight: 3, completed: 1 });
    await setLimits(queue, { rate: { ...rate, ms: 50 } });
    expect(await queue.takeIds(9), 'once the period is shorter').to.equal('e');
  });

  for (const [what, settlement, times, next, countsFrom] of [
    ['not one that did not start', release, {}, 'a', undefined],
    ['not one that was cancelled before its start', release, {}, 'b', undefined],
    ['one that was released after its start', release, { startedAt: START }, 'a', 0],
    ['one whose start was not reported, from its end', complete(), {}, 'b', 500],
  ] as const)
    it(`a rate counts attempts, ${what}`, async (queue) => {
      await setLimits(queue, { rate: { count: 1, ms: 1000 } });
      await publish(queue, 'ab');
      const a = await queue.next();
      if (what.includes('cancelled')) await queue.cancel('a');
      queue.now += 500;
      await queue.settle(a, settlement, times);
      await publish(queue, 'c');
      if (countsFrom !== undefined) {
        expect(await queue.takenAt(START + countsFrom + 999)).to.equal('');
        queue.now += 1;
      }
      expect(await queue.takeIds(9)).to.equal(next);
    });

  it('a rate of each key holds for each key', async (queue) => {
    await setLimits(queue, { perKey: { rate: { count: 1, ms: 1000 } } });
    await publish(queue, 'ab', 'one');
    await publish(queue, 'cd', 'two');
    for (const delivery of await queue.takeAll(2)) await reportStart(queue, delivery);
    expect(await queue.takeIds(9)).to.equal('');
    expect((await queue.store.limitOf('sum', 'two')).nextStartAt).to.equal(START + 1000);
    expect(await queue.takenAt(queue.now + 1000)).to.equal('bd');
  });

  for (const [change, before] of [
    ['set', undefined],
    ['changed', { perKey: { rate: { count: 9, ms: 2000 } } }],
  ] as const)
    it(`a rate that is ${change} counts the earlier starts in its period`, async (queue) => {
      await setLimits(queue, before);
      await publish(queue, 'abc', 'one');
      const a = await queue.next();
      await reportStart(queue, a);
      await setLimits(queue, { rate: { count: 1, ms: 900_000 }, perKey: { rate: { count: 9, ms: 2000 } } });
      await queue.settle(a, complete());
      await setLimits(queue, { rate: { count: 1, ms: 1000 }, perKey: { rate: { count: 2, ms: 5000 } } });
      expect(await queue.takenAt(START + 999)).to.equal('');
      queue.now = START + 1000;
      const b = await queue.next();
      await reportStart(queue, b);
      await queue.settle(b, complete());
      expect(await queue.takenAt(START + 4999)).to.equal('');
      expect(await queue.takenAt(START + 5000)).to.equal('c');
    });

  for (const what of isDurable ? ['a restart', 'a death, whose start was not reported'] : ['a restart'])
    it(`a rate counts the attempt of before ${what}, and the one after it`, async (queue) => {
      await setLimits(queue, { rate: { count: 1, ms: 1000 } });
      await publish(queue, 'ab');
      const former = await queue.next();
      if (what === 'a restart') await reportStart(queue, former);
      await (what === 'a restart' ? queue.restart() : queue.die());
      expect(await queue.takeIds(9)).to.equal('');
      queue.now = START + 1000;
      const a = await queue.next(true);
      expect(a.id).to.equal('a');
      for (const delivery of [former, a]) await reportStart(queue, delivery, delivery === a ? queue.now : START);
      await queue.settle(a, complete());
      expect([await queue.takenAt(START + 1999), await queue.takenAt(START + 2000)]).to.deep.equal(['', 'b']);
    });

  it('a rate gives starts back in slices, so that a take is short', async (queue) => {
    await setLimits(queue, { rate: { count: 300, ms: 1000 } });
    await publish(queue, numbers(600));
    await queue.settleAll(await queue.takeAll(300), complete());
    queue.now += 1000;
    for (const limited of [100, 0])
      expect([(await queue.take(1)).length, (await queue.store.counts()).limited]).to.deep.equal([1, limited]);
  });

  for (const seed of [1, 2, 3])
    it(`limits hold and leave no place empty, however messages are submitted, due, redriven, run now and settled (seed ${seed})`, async (queue) => {
      const random = new SeededRandom(`${seed}`);
      let limits: ActionLimits = { concurrency: 4, perKey: { concurrency: 2 } };
      await setLimits(queue, limits);
      const ids = numbers(40);
      let running: Delivery[] = [];
      for (let step = 0; step < 150; step += 1) {
        const limitKey = random.pick(['one', 'two', 'three', undefined]);
        const runAt = random.pick([undefined, undefined, queue.now + 3]);
        await queue.publish(ids.slice(step, step + 1), { limitKey, priority: random.pick([2, 3]), runAt });
        const action = random.below(8);
        const delivery = random.pick(running);
        if (action === 0) {
          limits = { concurrency: random.pick([1, 3, 5]), perKey: { concurrency: random.pick([1, 2, 3]) } };
          await setLimits(queue, limits);
        } else if (action === 1) await queue.cancel(random.pick(ids));
        else if (action === 2) await queue.redrive({ all: true });
        else if (action === 3) for (let count = 0; count < 8; count += 1) await queue.store.runNow(random.pick(ids));
        else if (delivery !== undefined) {
          running = running.filter((each) => each !== delivery);
          await queue.settle(delivery, random.pick([complete(), release, retry(queue.now + 2), discard()]));
        }
        queue.now += 1;
        const taken = await queue.take(random.pick([1, 9]));
        running.push(...taken);
        // The limit of each key neither excludes a message without a key nor leaves room for one.
        const usedBy = (key: string | undefined, without: number) =>
          key === undefined ? without : running.filter((each) => each.limitKey === key).length;
        const { concurrency = 0, perKey: { concurrency: ofKey = 0 } = {} } = limits;
        if (taken.length > 0) expect(running.length).to.be.at.most(concurrency);
        for (const { limitKey: key } of taken) expect(usedBy(key, 0)).to.be.at.most(ofKey);
        const { waiting, limited } = await queue.store.counts();
        if (limited > 0 && waiting === 0 && running.length < concurrency) {
          const located = await searchIn(queue.store, { state: 'limited' });
          for (const { limitKey: key } of await queue.store.reads.read(located.map((each) => each.id)))
            expect(usedBy(key, 9)).to.be.at.least(ofKey);
        }
      }
      // Everything is due by now, and each settled message makes room for the next one.
      queue.now += 10;
      for (;;) {
        running.push(...(await queue.take(9)));
        const last = running.pop();
        if (last === undefined) break;
        await queue.settle(last, complete());
      }
      await queue.expectCounts({ waiting: 0, limited: 0, scheduled: 0, retrying: 0, inFlight: 0 });
    });
}
