import { expect } from 'chai';
import fc from 'fast-check';
import { unsettled } from '../../../main/tasks/dispatch/dispatcher.ts';
import type { Outcome } from '../../../main/tasks/pool/worker-pool.ts';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import type { Delivery, Settlement } from '../../../main/tasks/queue/queue.ts';
import { lettersOf } from '../../drivers/inbox.ts';
import { crashed, raised, raisedForGood, returned, startDispatching } from './dispatching.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

/** A queue whose `settle` always fails after it has settled the delivery in memory. */
class FailingQueue extends LocalQueue {
  override async settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    await super.settle(delivery, settlement);
    throw new Error('disk full');
  }
}

const start = (workers?: number) => startDispatching(new HandDrivenPool(workers));

describe('Dispatcher', () => {
  it('makes as many attempts at a task as its action allows', async () => {
    const actions = new Map([['twice', { maxAttempts: 2 }]]);
    const { pool, queue, reach } = startDispatching(new HandDrivenPool(), { actions });
    await queue.publish({ id: 'a', body: '{"id":"a","action":"twice"}' });
    for (const attempt of [1, 2]) (await pool.given(attempt)).end(raised);
    expect(await reach(({ dead }) => dead === 1)).to.include({ delayed: 0, waiting: 0 });
  });

  describe('taking deliveries', () => {
    it('gives the pool the delivery as the queue has it', async () => {
      const { pool, queue } = start();
      const body = '{"id": "a",\n "data":{"__proto__":1}}';
      await queue.publish({ id: 'a', body });
      expect((await pool.given(1)).delivery).to.deep.include({ message: { id: 'a', body }, attempt: 1 });
    });

    it('has at most the prefetch in flight, and leaves the rest in the queue', async () => {
      const { pool, queue, publish } = start();
      await publish(...'abcdefgh');
      await pool.given(5);
      expect(pool.bodies).to.deep.equal([...'abcde']);
      expect(queue.counts()).to.include({ inFlight: 5, waiting: 3 });
    });

    it('takes the next one in order for each that ends, whichever ends first', async () => {
      const { pool, publish } = start();
      await publish(...'abcdefgh');
      await pool.given(5);
      for (const [given, ending] of [
        [6, 3],
        [7, 6],
        [8, 1],
      ] as const) {
        expect(pool.runs).to.have.length(given - 1);
        pool.runs[ending - 1]?.end(returned);
        await pool.given(given);
        expect(pool.busy).to.equal(5);
      }
      expect(pool.bodies).to.deep.equal([...'abcdefgh']);
    });

    it('completes every task once, in order and within its bounds, whatever ends when', async () => {
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.infiniteStream(fc.nat(7)), async (prefetch, endings) => {
          const { pool, queue, publish, reach } = startDispatching(new HandDrivenPool(), { prefetch });
          const ids = Array.from({ length: 20 }, (_, index) => String(index));
          await publish(...ids);
          const open: number[] = [];
          for (let count = 1, given = 0; count <= ids.length; count++) {
            await reach(({ completed }) => completed === count - 1);
            await pool.given(Math.min(ids.length, prefetch + count - 1));
            while (given < pool.runs.length) open.push(given++);
            expect(open.length).to.equal(Math.min(prefetch, ids.length - count + 1));
            expect(queue.counts().inFlight).to.equal(open.length);
            const [ending] = open.splice((endings.next().value ?? 0) % open.length, 1);
            pool.runs[ending as number]?.end(returned);
          }
          await reach(({ completed }) => completed === ids.length);
          expect(pool.bodies).to.deep.equal(ids);
        }),
        { numRuns: 30 },
      );
    });

    it('reports a task as running once a worker has started it, and as queued before', async () => {
      const { pool, publish, queue } = start(1);
      await publish('a', 'b');
      await pool.given(2);
      expect(await queue.find('a')).to.deep.include({ state: 'running', attempt: 1 });
      expect(await queue.find('b')).to.deep.include({ state: 'queued' });
    });
  });

  describe('settling by the outcome', () => {
    it('acknowledges one that returned', async () => {
      const { pool, publish, reach, lines } = start();
      await publish('a');
      (await pool.given(1)).end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ inFlight: 0, bytes: 0 });
      expect(lines).to.deep.equal([]);
    });

    it('retries one that raised an error, up to five attempts, then discards it', async () => {
      const { pool, publish, reach, queue, lines } = start();
      await publish('a');
      for (let attempt = 1; attempt <= 5; attempt++) (await pool.given(attempt)).end(raised);
      await reach(({ dead }) => dead === 1);
      expect(pool.bodies).to.deep.equal(Array(5).fill('a'));
      expect((await lettersOf(queue))[0]).to.deep.include({ reason: 'it failed', attempts: 5 });
      expect(lines.map(({ attempt, decision }) => [attempt, decision])).to.deep.equal([
        [1, 'retry'],
        [2, 'retry'],
        [3, 'retry'],
        [4, 'retry'],
        [5, 'discard'],
      ]);
    });

    it('completes one that succeeds after an error', async () => {
      const { pool, publish, reach } = start();
      await publish('a');
      (await pool.given(1)).end(raised);
      (await pool.given(2)).end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0, delayed: 0, inFlight: 0 });
    });

    it('discards a permanent failure at once', async () => {
      const { pool, publish, reach, queue, lines } = start();
      await publish('a');
      (await pool.given(1)).end(raisedForGood);
      await reach(({ dead }) => dead === 1);
      expect((await lettersOf(queue))[0]).to.deep.include({ id: 'a', body: 'a', reason: 'bad data', attempts: 1 });
      expect(lines).to.have.length(1);
      expect(lines[0]).to.include({ level: 40, task: 'a', attempt: 1, decision: 'discard', reason: 'bad data' });
    });

    it('discards one whose second thread died', async () => {
      const { pool, publish, reach, queue } = start();
      await publish('a');
      (await pool.given(1)).end(crashed);
      (await pool.given(2)).end(crashed);
      await reach(({ dead }) => dead === 1);
      expect((await lettersOf(queue))[0]).to.include({ reason: 'thread died', attempts: 2 });
    });

    it('counts deaths of threads apart from errors', async () => {
      const { pool, publish, reach } = start();
      await publish('a');
      for (const [index, outcome] of [crashed, raised, raised, returned].entries()) {
        (await pool.given(index + 1)).end(outcome);
      }
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0 });
    });

    it('releases one that was interrupted, which counts no attempt', async () => {
      const { pool, publish, reach } = start();
      await publish('a');
      (await pool.given(1)).end({ ended: 'interrupted', reason: 'stopped' });
      const again = await pool.given(2);
      expect(again.delivery).to.include({ attempt: 1, crashes: 0 });
      again.end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0 });
    });

    it('goes on with the others while one waits for its retry', async () => {
      const decide = (_: unknown, outcome: Outcome): Settlement =>
        outcome.ended === 'returned'
          ? { kind: 'ack' }
          : { kind: 'retry', delayMs: 60_000, reason: 'no', failure: 'transient' };
      const { publish, reach, pool } = startDispatching(new HandDrivenPool(), { prefetch: 1, decide });
      await publish('a', 'b');
      (await pool.given(1)).end(raised);
      (await pool.given(2)).end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ delayed: 1, inFlight: 0 });
      expect(pool.bodies).to.deep.equal(['a', 'b']);
    });

    it('counts failures by kind, and the wait of each task once', async () => {
      const { pool, publish, reach, dispatcher } = start();
      await publish('a');
      for (let attempt = 1; attempt <= 5; attempt++) (await pool.given(attempt)).end(raised);
      await reach(({ dead }) => dead === 1);
      await publish('b');
      for (let attempt = 6; attempt <= 7; attempt++) (await pool.given(attempt)).end(crashed);
      await reach(({ dead }) => dead === 2);
      await publish('c');
      (await pool.given(8)).end({ ended: 'interrupted', reason: 'stopped' });
      (await pool.given(9)).end(raisedForGood);
      await reach(({ dead }) => dead === 3);
      const { retried, dead, waits } = dispatcher.metrics;
      expect(Object.fromEntries(retried)).to.deep.equal({ error: 4, crash: 1 });
      expect(Object.fromEntries(dead)).to.deep.equal({ permanent: 1, attempts: 1, crashes: 1 });
      expect(waits.cumulative().count).to.equal(3);
    });

    it('logs a settlement that the queue cannot record, and goes on', async () => {
      const queue = new FailingQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 });
      const { pool, publish, lines, reach } = startDispatching(new HandDrivenPool(), { queue, prefetch: 1 });
      await publish('a', 'b');
      (await pool.given(1)).end(returned);
      (await pool.given(2)).end(returned);
      await reach(() => lines.length === 2);
      expect(lines.map(({ level, msg, task }) => [level, msg, task])).to.deep.equal([
        [50, 'settling a task failed', 'a'],
        [50, 'settling a task failed', 'b'],
      ]);
    });
  });

  it('counts as unsettled what is waiting, delayed or in flight', async () => {
    const { pool, publish, queue, reach } = start();
    expect(unsettled(queue)).to.equal(0);
    await publish(...'abcdefgh');
    expect(unsettled(queue)).to.equal(8);
    (await pool.given(1)).end(returned);
    await reach(({ completed }) => completed === 1);
    expect(unsettled(queue)).to.equal(7);
  });
});
