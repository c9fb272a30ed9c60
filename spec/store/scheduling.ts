import { expect } from 'chai';
import { PRIORITIES, QueueFull, TAKES_PER_LONGEST } from '../../db/task-store.ts';
import {
  complete,
  discard,
  errorOf,
  idsOf,
  messageOf,
  numbers,
  type QueueTests,
  release,
  retry,
  START,
  type TestQueue,
} from './stage.ts';

const publishAt = (queue: TestQueue, id: string, runAt: number) => queue.store.publish({ ...messageOf(id), runAt });
const publishWith = (queue: TestQueue, id: string, priority: number) =>
  queue.store.publish({ ...messageOf(id), priority });

/** Conformance specs of messages that are due later, and of priorities. */
export function describeScheduling({ it, itWith }: QueueTests): void {
  describe('a scheduled message', () => {
    it('is delivered when it is due, and not before, in the order in which messages became due', async (queue) => {
      await publishAt(queue, 'c', START + 20);
      await publishAt(queue, 'b', START + 10);
      await queue.expectCounts({ accepted: 2, scheduled: 2, waiting: 0 });
      expect(await queue.message('b')).to.include({ state: 'scheduled', runAt: START + 10, acceptedAt: START });
      expect(await queue.store.take(5, true)).to.deep.equal({ deliveries: [], nextRunAt: START + 10 });
      queue.now = START + 9;
      expect(await queue.takeIds(5)).to.equal('');
      await queue.publish('a');
      queue.now = START + 20;
      const first = await queue.takeAll(2);
      await queue.publish('d');
      const all = [...first, ...(await queue.takeAll(2))];
      expect(idsOf(all)).to.equal('abcd');
      expect(all.map(({ dueAt }) => dueAt - START)).to.deep.equal([9, 10, 20, 20]);
      await queue.expectCounts({ scheduled: 0, waiting: 0, inFlight: 4 });
    });

    it('begins to wait in slices, so that a take is short however many are due', async (queue) => {
      const runAt = START + 10;
      await queue.store.publishAll(
        numbers(300).map((id) => ({ message: { ...messageOf(id), runAt }, key: undefined })),
      );
      queue.now = runAt;
      for (const scheduled of [100, 0]) {
        await queue.takeIds(1);
        await queue.expectCounts({ scheduled });
      }
    });

    itWith({ maxLength: 1 }, 'can be cancelled, and counts for the bound of the queue', async (queue) => {
      await publishAt(queue, 'a', START + 10);
      expect(await errorOf(() => queue.store.publish(messageOf('b')))).to.be.instanceOf(QueueFull);
      expect(await queue.cancel('a')).to.equal('cancelled');
      await publishAt(queue, 'b', START + 10);
      queue.now += 10;
      expect(await queue.takeIds(5)).to.equal('b');
      await queue.expectCounts({ accepted: 2, cancelled: 1, inFlight: 1 });
    });

    it('keeps its time over a restart, also if the clock was set back', async (queue) => {
      await publishAt(queue, 'a', START + 60_000);
      await queue.restart();
      queue.now = START - 1000;
      await queue.restart();
      await queue.expectCounts({ scheduled: 1 });
      queue.now = START + 59_999;
      expect(await queue.takeIds(5)).to.equal('');
      queue.now = START + 60_000;
      expect(await queue.takeIds(5)).to.equal('a');
    });
  });

  describe('running now', () => {
    const runNow = async ({ store }: TestQueue, id: string) => {
      const told: string[] = [];
      const outcome = await store.runNow(id, (task) => told.push(`${task.id} ${task.action}`));
      return [outcome, ...told];
    };

    it('makes a scheduled or retrying message due', async (queue) => {
      await queue.publish('a');
      await queue.settle(await queue.next(), retry(START + 60_000));
      await publishAt(queue, 'b', START + 60_000);
      queue.now += 5;
      expect(await runNow(queue, 'b')).to.deep.equal(['due', 'b sum']);
      queue.now += 5;
      expect(await runNow(queue, 'a')).to.deep.equal(['due', 'a sum']);
      await queue.expectCounts({ scheduled: 0, retrying: 0, waiting: 2 });
      const both = await queue.takeAll(2);
      expect(both.map(({ id, attempt, dueAt }) => `${id} ${attempt} ${dueAt - START}`)).to.deep.equal([
        'b 1 5',
        'a 2 10',
      ]);
    });

    it('changes nothing if the message waits, runs or has ended, or is unknown', async (queue) => {
      await queue.discard('x');
      await queue.publish('abc');
      const [a, b] = await queue.takeAll(2);
      await queue.settle(a, complete());
      await queue.unchanged(async () => {
        expect(await runNow(queue, 'c')).to.deep.equal(['due']);
        expect(await runNow(queue, 'b')).to.deep.equal(['running']);
        for (const id of ['a', 'x']) expect(await runNow(queue, id)).to.deep.equal(['ended']);
        for (const id of ['y', '', '\0', '__proto__']) expect(await runNow(queue, id)).to.deep.equal([undefined]);
      });
      expect(await queue.settle(b, complete())).to.equal('applied');
    });
  });

  describe('priorities', () => {
    it('are taken first, and within one in the order in which messages became due', async (queue) => {
      for (const [id, priority] of Object.entries({ e: 5, c: 3, a: 1, f: 5, b: 1 }))
        await publishWith(queue, id, priority);
      await queue.publish('d');
      expect(await queue.takeIds(2)).to.equal('ab');
      expect(await queue.takeIds(5)).to.equal('cdef');
      expect(await queue.message('e')).to.include({ priority: 5 });
      expect(await queue.message('d')).to.include({ priority: 3 });
    });

    it('stay with a message over a release, a retry, a redrive and a restart', async (queue) => {
      await publishWith(queue, 'a', 1);
      await queue.settle(await queue.next(), release);
      await queue.settle(await queue.next(), retry(queue.now));
      await queue.settle(await queue.next(), discard());
      queue.now += 1;
      await queue.publish('b');
      queue.now += 1;
      await queue.redrive({ all: true });
      await queue.restart();
      expect(await queue.takeIds(5)).to.equal('ab');
    });

    it('let none wait for ever: one message of ten is the one that has waited longest', async (queue) => {
      await publishWith(queue, 'last', 5);
      queue.now += 1;
      for (const id of numbers(3 * TAKES_PER_LONGEST))
        await publishWith(queue, id, 1 + (Number(id) % (PRIORITIES.length - 1)));
      const taken: string[] = [];
      while (!taken.includes('last')) {
        const deliveries = await queue.takeAll(3);
        taken.push(...deliveries.map(({ id }) => id));
        for (const delivery of deliveries) await queue.settle(delivery, complete());
      }
      expect(taken.length).to.be.within(TAKES_PER_LONGEST - 2, TAKES_PER_LONGEST + 2);
    });
  });
}
