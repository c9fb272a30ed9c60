import { mock } from 'node:test';
import { expect } from 'chai';
import fc from 'fast-check';
import { Dispatcher, unsettled } from '../../main/tasks/dispatcher.ts';
import type { Delivery, QueueDriver } from '../../main/tasks/queue/driver.ts';
import { MemoryQueue } from '../../main/tasks/queue/memory.ts';
import type { PoolOutcome } from '../../main/tasks/worker-pool.ts';
import { lettersOf } from '../drivers/inbox.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { until } from '../support/until.ts';
import { startDispatching } from './dispatching.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

const returned: PoolOutcome = { ended: 'returned' };
const raised: PoolOutcome = { ended: 'raised', reason: 'it failed', permanent: false };
const crashed: PoolOutcome = { ended: 'crashed', reason: 'thread died' };

/** A queue that cannot take note of an acknowledgement. */
class ForgetfulQueue extends MemoryQueue {
  override consume(prefetch: number, receive: (delivery: Delivery) => void) {
    const ack = () => Promise.reject(new Error('disk full'));
    return super.consume(prefetch, (delivery) => receive({ ...delivery, ack }));
  }
}

const start = (threads = 2) => startDispatching(new HandDrivenPool(threads));

describe('Dispatcher', () => {
  afterEach(() => mock.timers.reset());

  describe('running tasks', () => {
    it('hands the pool the message text unchanged', async () => {
      const { pool, queue } = start();
      const body = '{"id": "a",\n "data":{"__proto__":1}}';
      await queue.publish({ id: 'a', body });
      expect((await pool.started(1)).body).to.equal(body);
    });

    it('runs as many as the pool has threads, takes as many as its prefetch, and leaves the rest', async () => {
      const { pool, queue, publish } = start();
      await publish(...'abcdefgh');
      expect(pool.bodies).to.deep.equal(['a', 'b']);
      expect(queue.counts()).to.include({ inFlight: 5, waiting: 3 });
    });

    it('begins tasks in the order of publishing, whichever ends first', async () => {
      const { pool, publish } = start();
      await publish(...'abcdefgh');
      for (const [count, ending] of [
        [3, 2],
        [4, 1],
        [5, 4],
        [6, 5],
        [7, 3],
        [8, 6],
      ] as const) {
        expect(pool.runs).to.have.length(count - 1);
        pool.runs[ending - 1]?.end(returned);
        await pool.started(count);
        expect(pool.busy).to.equal(2);
      }
      expect(pool.bodies).to.deep.equal([...'abcdefgh']);
    });

    it('completes every task once, in order and within its bounds, whatever ends when', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 4 }),
          fc.integer({ min: 1, max: 8 }),
          fc.infiniteStream(fc.nat(3)),
          async (threads, prefetch, endings) => {
            const pool = new HandDrivenPool(threads);
            const { queue, publish, reach } = startDispatching(pool, { prefetch });
            const ids = Array.from({ length: 20 }, (_, index) => String(index));
            await publish(...ids);
            const open: number[] = [];
            for (let count = 1, begun = 0; count <= ids.length; count++) {
              await reach(({ completed }) => completed === count - 1);
              while (begun < pool.runs.length) open.push(begun++);
              expect(open.length).to.equal(Math.min(threads, prefetch, ids.length - count + 1));
              expect(queue.counts().inFlight).to.be.at.most(prefetch);
              const [ending] = open.splice((endings.next().value ?? 0) % open.length, 1);
              pool.runs[ending as number]?.end(returned);
            }
            await reach(({ completed }) => completed === ids.length);
            expect(pool.bodies).to.deep.equal(ids);
          },
        ),
        { numRuns: 30 },
      );
    });
  });

  describe('settling by how a task ended', () => {
    it('acknowledges one that returned', async () => {
      const { pool, publish, reach, lines } = start();
      await publish('a');
      (await pool.started(1)).end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ inFlight: 0, bytes: 0 });
      expect(lines).to.deep.equal([]);
    });

    it('tries one that raised an error again, five times in all, then gives it up', async () => {
      const { pool, publish, reach, queue, lines } = start();
      await publish('a');
      for (let attempt = 1; attempt <= 5; attempt++) (await pool.started(attempt)).end(raised);
      await reach(({ dead }) => dead === 1);
      expect(pool.bodies).to.deep.equal(Array(5).fill('a'));
      expect((await lettersOf(queue))[0]).to.deep.include({ reason: 'it failed', attempts: 5 });
      expect(lines.map(({ attempt, verdict }) => [attempt, verdict])).to.deep.equal([
        [1, 'retry'],
        [2, 'retry'],
        [3, 'retry'],
        [4, 'retry'],
        [5, 'dead'],
      ]);
    });

    it('counts what failed by how, and what waited once', async () => {
      const { pool, publish, reach, dispatcher } = start();
      const crashed = { ended: 'crashed', reason: 'gone' } as const;
      await publish('a');
      for (let attempt = 1; attempt <= 5; attempt++) (await pool.started(attempt)).end(raised);
      await reach(({ dead }) => dead === 1);
      await publish('b');
      for (let attempt = 6; attempt <= 7; attempt++) (await pool.started(attempt)).end(crashed);
      await reach(({ dead }) => dead === 2);
      await publish('c');
      (await pool.started(8)).end({ ended: 'raised', reason: 'bad data', permanent: true });
      await reach(({ dead }) => dead === 3);
      const { retried, dead, waits } = dispatcher.figures;
      expect(Object.fromEntries(retried.entries())).to.deep.equal({ error: 4, crash: 1 });
      expect(Object.fromEntries(dead.entries())).to.deep.equal({ permanent: 1, attempts: 1, crashes: 1 });
      expect(waits.cumulative().count).to.equal(3);
    });

    it('completes one that succeeds after an error', async () => {
      const { pool, publish, reach } = start();
      await publish('a');
      (await pool.started(1)).end(raised);
      (await pool.started(2)).end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0, delayed: 0, inFlight: 0 });
    });

    it('gives a permanent failure up at once', async () => {
      const { pool, publish, reach, queue, lines } = start();
      await publish('a');
      (await pool.started(1)).end({ ended: 'raised', reason: 'bad data', permanent: true });
      await reach(({ dead }) => dead === 1);
      expect((await lettersOf(queue))[0]).to.deep.include({
        id: 'a',
        body: 'a',
        reason: 'bad data',
        attempts: 1,
      });
      expect(lines).to.have.length(1);
      expect(lines[0]).to.include({ level: 40, task: 'a', attempt: 1, verdict: 'dead', reason: 'bad data' });
    });

    it('gives one up whose second thread died', async () => {
      const { pool, publish, reach, queue } = start();
      await publish('a');
      (await pool.started(1)).end(crashed);
      (await pool.started(2)).end(crashed);
      await reach(({ dead }) => dead === 1);
      expect((await lettersOf(queue))[0]).to.include({ reason: 'thread died', attempts: 2 });
    });

    it('counts deaths of threads apart from errors', async () => {
      const { pool, publish, reach } = start();
      await publish('a');
      for (const [index, outcome] of [crashed, raised, raised, returned].entries()) {
        (await pool.started(index + 1)).end(outcome);
      }
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0 });
    });

    it('tries one again that was interrupted while nobody stops it', async () => {
      const { pool, publish, reach } = start();
      await publish('a');
      (await pool.started(1)).end({ ended: 'interrupted', reason: 'thread stopped', suspect: false });
      (await pool.started(2)).end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0 });
    });

    it('goes on with the others while one waits for its next attempt', async () => {
      const pool = new HandDrivenPool(1);
      const { publish, reach } = startDispatching(pool, {
        judge: (_delivery, { reason }) => ({ verdict: 'retry', delayMs: 60_000, reason, crashed: false }),
      });
      await publish('a', 'b');
      (await pool.started(1)).end(raised);
      (await pool.started(2)).end(returned);
      expect(await reach(({ completed }) => completed === 1)).to.include({ delayed: 1, inFlight: 0 });
      expect(pool.bodies).to.deep.equal(['a', 'b']);
    });
  });

  describe('settling before the end', () => {
    it('acknowledges at once, and frees the place in the window but not the thread', async () => {
      const { pool, publish, queue } = start(1);
      await publish(...'abcdefg');
      const first = await pool.started(1);
      first.settle('ack');
      expect(queue.counts()).to.include({ completed: 1, inFlight: 5, waiting: 1 });
      expect(pool.bodies).to.deep.equal(['a']);
      first.end({ ended: 'returned', settled: 'ack' });
      await pool.started(2);
      expect(queue.counts()).to.include({ completed: 1, inFlight: 5 });
    });

    it('stays acknowledged, however the handler ends', async () => {
      for (const outcome of [{ ...raised, settled: 'ack' } as PoolOutcome, crashed]) {
        const { pool, publish, reach, queue, lines } = start();
        await publish('a');
        const run = await pool.started(1);
        run.settle('ack');
        run.end(outcome);
        await reach(() => pool.busy === 0);
        expect(queue.counts()).to.include({ completed: 1, dead: 0, delayed: 0, waiting: 0, inFlight: 0 });
        // A retry of "a" would come before "b".
        await publish('b');
        (await pool.started(2)).end(returned);
        await reach(({ completed }) => completed === 2);
        expect(pool.bodies).to.deep.equal(['a', 'b']);
        expect(lines).to.deep.equal([]);
      }
    });

    it('acknowledges negatively at once, and only once', async () => {
      const { pool, publish, reach, lines } = start(2);
      await publish('a');
      const run = await pool.started(1);
      run.settle('nack');
      (await pool.started(2)).end(returned);
      await reach(({ completed }) => completed === 1);
      run.end({ ended: 'returned', settled: 'nack' });
      expect(await reach(() => pool.busy === 0)).to.include({ completed: 1, dead: 0, delayed: 0, inFlight: 0 });
      expect(lines.map(({ msg, attempt }) => [msg, attempt])).to.deep.equal([['task failed', 1]]);
    });

    it('follows the settlement that comes with the end when it comes first', async () => {
      const { pool, publish, reach } = start();
      await publish('a', 'b');
      (await pool.started(1)).end({ ended: 'returned', settled: 'nack' });
      (await pool.started(2)).end({ ...raised, settled: 'ack' } as PoolOutcome);
      (await pool.started(3)).end(returned);
      expect(await reach(({ completed }) => completed === 2)).to.include({ dead: 0 });
      expect(pool.bodies).to.deep.equal(['a', 'b', 'a']);
    });
  });

  describe('batches', () => {
    const startBatching = () => startDispatching(new HandDrivenPool(2, 3));
    const endAll = (pool: HandDrivenPool, outcome: PoolOutcome = returned) => {
      for (const run of pool.runs.slice(-(pool.batches.at(-1) ?? 0))) run.end(outcome);
    };

    it('give a free thread what is pending, and no more than it takes', async () => {
      const { pool, publish, reach } = startBatching();
      await publish(...'abcdefghij');
      expect(pool.batches).to.deep.equal([1, 1]);
      pool.runs[0]?.end(returned);
      // Three were pending, and one has come for each that is done.
      await reach(() => pool.batches.length === 3);
      expect(pool.batches).to.deep.equal([1, 1, 3]);
      endAll(pool);
      await reach(() => pool.batches.length === 4);
      expect(pool.batches[3]).to.equal(3);
      expect(pool.bodies).to.deep.equal([...'abcdefgh']);
    });

    it('are settled task by task', async () => {
      const { pool, publish, reach } = startBatching();
      await publish(...'abcde');
      pool.runs[0]?.end(returned);
      await reach(() => pool.batches.length === 3);
      const [c, d, e] = pool.runs.slice(2);
      c?.end(returned);
      d?.end({ ended: 'raised', reason: 'bad data', permanent: true });
      e?.settle('ack');
      e?.end(raised);
      pool.runs[1]?.end(returned);
      expect(await reach(({ completed }) => completed === 4)).to.include({ dead: 1, inFlight: 0 });
    });

    it('hold one task only where that has killed a thread', async () => {
      mock.timers.enable({ apis: ['setTimeout'] });
      const { pool, publish, reach, queue } = startBatching();
      await publish('a');
      (await pool.started(1)).end(crashed);
      await reach(({ delayed }) => delayed === 1);
      await publish(...'bc');
      mock.timers.tick(1);
      expect(queue.counts().delayed).to.equal(0);
      await publish(...'de');
      // "a" is pending between others.
      await reach(({ waiting }) => waiting === 0);
      expect(pool.bodies).to.deep.equal(['a', 'b', 'c']);
      pool.runs[1]?.end(returned);
      await pool.started(4);
      pool.runs[2]?.end(returned);
      await pool.started(6);
      expect(pool.bodies).to.deep.equal(['a', 'b', 'c', 'a', 'd', 'e']);
      expect(pool.batches).to.deep.equal([1, 1, 1, 1, 2]);
    });

    it('end before one that is to be alone', async () => {
      mock.timers.enable({ apis: ['setTimeout'] });
      const { pool, publish, reach, queue } = startBatching();
      await publish('a');
      (await pool.started(1)).end(crashed);
      await reach(({ delayed }) => delayed === 1);
      await publish(...'bcd');
      mock.timers.tick(1);
      expect(queue.counts()).to.include({ delayed: 0, inFlight: 4 });
      pool.runs[1]?.end(returned);
      await reach(() => pool.batches.length > 3);
      expect(pool.bodies).to.deep.equal(['a', 'b', 'c', 'd']);
      expect(pool.batches).to.deep.equal([1, 1, 1, 1]);
    });

    it('are formed anew, each task alone, when any of one could have killed the thread', async () => {
      const { pool, publish, reach } = startBatching();
      await publish(...'abcde');
      pool.runs[0]?.end(returned);
      await reach(() => pool.batches.length === 3);
      endAll(pool, { ended: 'interrupted', reason: 'thread died', suspect: true });
      pool.runs[1]?.end(returned);
      for (const count of [6, 7, 8]) (await pool.started(count)).end(count === 7 ? crashed : returned);
      expect(pool.bodies.slice(5, 8)).to.deep.equal([...'cde']);
      expect(pool.batches.slice(3)).to.deep.equal([1, 1, 1]);
      // "d" is the one.
      (await pool.started(9)).end(crashed);
      expect(await reach(({ dead }) => dead === 1)).to.include({ completed: 4, inFlight: 0 });
    });
  });

  it('keeps no suspect whose task another node took', async () => {
    const pool = new HandDrivenPool(1, 10);
    const nothing = async () => {};
    const deliveries = (): Delivery[] =>
      ['a', 'b'].map((id, seq) => {
        const message = { id, body: id };
        const calls = { begin: nothing, ack: nothing, nack: nothing, release: nothing };
        return { message, seq, acceptedAt: 0, attempt: 1, crashes: 0, cut: false, suspect: false, ...calls };
      });
    let receive: (delivery: Delivery) => void = () => {};
    const queue = {
      consume(_prefetch: number, receiver: typeof receive) {
        receive = receiver;
        return { stop() {} };
      },
    } as Partial<QueueDriver> as QueueDriver;
    const dispatcher = new Dispatcher({ queue, pool, prefetch: 5, log: captureLog().log });
    dispatcher.start();
    afterTest(() => dispatcher.stop(Promise.resolve()));
    /** Both tasks arrive while another one runs, so that they can form a batch. */
    const arrive = async (outcome: PoolOutcome) => {
      const [busy, ...tasks] = [...deliveries().slice(0, 1), ...deliveries()] as [Delivery, ...Delivery[]];
      const begun = pool.runs.length;
      receive({ ...busy, message: { id: 'busy', body: 'busy' } });
      for (const delivery of tasks) receive(delivery);
      (await pool.started(begun + 1)).end(returned);
      await pool.started(begun + 2);
      for (const run of pool.runs.slice(begun + 1)) run.end(outcome);
      await until(() => pool.busy === 0 && dispatcher.busy === 0);
    };
    await arrive({ ended: 'interrupted', reason: 'thread died', suspect: true });
    await arrive(returned);
    expect(pool.batches).to.deep.equal([1, 2, 1, 2]);
  });

  describe('while nothing can be stored', () => {
    const unstored: PoolOutcome = { ended: 'unstored', reason: 'disk full' };

    it('gives tasks back without an attempt, and waits', async () => {
      mock.timers.enable({ apis: ['setTimeout'] });
      const pass = async (ms: number) => {
        mock.timers.tick(ms);
        await new Promise(setImmediate);
      };
      const { pool, publish, queue, lines, reach } = start(1);
      await publish(...'abc');
      (await pool.started(1)).end(unstored);
      await reach(() => lines.length === 1);
      expect(lines[0]).to.include({ level: 50, reason: 'disk full', delayMs: 100 });
      expect(pool.busy).to.equal(0);
      expect(queue.counts()).to.include({ inFlight: 3, delayed: 0 });
      await pass(99);
      expect(pool.runs).to.have.length(1);
      await pass(1);
      (await pool.started(2)).end(unstored);
      await reach(() => lines.length === 2);
      expect(lines[1]).to.include({ delayMs: 200 });
      await pass(199);
      expect(pool.runs).to.have.length(2);
      await pass(1);
      (await pool.started(3)).end(returned);
      (await pool.started(4)).end(returned);
      (await pool.started(5)).end(returned);
      expect(await reach(({ completed }) => completed === 3)).to.include({ dead: 0 });
      expect(pool.runs).to.have.length(5);
    });

    it('begins with the shortest pause again once something was stored', async () => {
      const { pool, publish, lines, reach } = start(1);
      await publish(...'ab');
      (await pool.started(1)).end(unstored);
      (await pool.started(2)).end(returned);
      (await pool.started(3)).end(unstored);
      await reach(() => lines.length === 2);
      expect(lines.map(({ delayMs }) => delayMs)).to.deep.equal([100, 100]);
    });

    it('keeps to what the handler said of its delivery', async () => {
      const { pool, publish, reach } = start(1);
      await publish('a');
      (await pool.started(1)).end({ ...unstored, settled: 'ack' });
      expect(await reach(({ completed }) => completed === 1)).to.include({ inFlight: 0 });
    });

    it('stops at once, and loses nothing', async () => {
      const { pool, publish, queue, dispatcher, lines, reach } = start(1);
      await publish(...'abc');
      (await pool.started(1)).end(unstored);
      await reach(() => lines.length === 1);
      await dispatcher.stop(new Promise(() => {}));
      expect(queue.counts()).to.include({ waiting: 3, inFlight: 0 });
    });

    it('does not run what the queue cannot take note of', async () => {
      let broken = true;
      class UnwritableQueue extends MemoryQueue {
        override consume(prefetch: number, receive: (delivery: Delivery) => void) {
          const begin = async () => {
            if (broken) throw new Error('locked');
          };
          return super.consume(prefetch, (delivery) => receive({ ...delivery, begin }));
        }
      }
      const queue = new UnwritableQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 });
      const { pool, publish, lines, reach } = startDispatching(new HandDrivenPool(1), { queue });
      await publish('a');
      await reach(() => lines.length === 1);
      expect(pool.runs).to.have.length(0);
      expect(lines[0]).to.include({ level: 50, delayMs: 100 });
      broken = false;
      (await pool.started(1)).end(returned);
      await reach(({ completed }) => completed === 1);
    });
  });

  describe('a task that an earlier process may have died of', () => {
    const entry = (id: string, seq: number) => ({
      id,
      body: id,
      seq,
      turn: seq,
      bytes: 1,
      reason: null,
      dueAt: 0,
      firstAt: 1,
    });

    /** Queues of which some messages were being worked on when the process died. */
    const recovered = (crashes: number, attempts = 1) => {
      const messages = [
        { ...entry('a', 1), attempts, crashes },
        { ...entry('b', 2), attempts, crashes },
        { ...entry('c', 3), attempts: 0, crashes: 0 },
      ];
      const holdings = { messages, deadLetters: [], keys: [], cut: [1, 2] };
      const queue = new MemoryQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 }, { holdings });
      return startDispatching(new HandDrivenPool(2, 3), { queue });
    };

    it('runs all alone', async () => {
      const { pool, reach } = recovered(1);
      for (const count of [1, 2]) {
        const run = await pool.started(count);
        expect(pool.busy).to.equal(1);
        expect(pool.runs).to.have.length(count);
        run.end(returned);
      }
      (await pool.started(3)).end(returned);
      await reach(({ completed }) => completed === 3);
      expect(pool.bodies).to.deep.equal(['a', 'b', 'c']);
    });

    it('does not start while another task is running', async () => {
      const messages = [
        { ...entry('a', 1), attempts: 0, crashes: 0 },
        { ...entry('b', 2), attempts: 1, crashes: 1 },
      ];
      const holdings = { messages, deadLetters: [], keys: [], cut: [2] };
      const queue = new MemoryQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 }, { holdings });
      const { pool, reach } = startDispatching(new HandDrivenPool(2, 3), { queue });
      const a = await pool.started(1);
      // A task from this queue reaches the pool within one turn of the event loop.
      await new Promise(setImmediate);
      expect(pool.bodies).to.deep.equal(['a']);
      a.end(returned);
      (await pool.started(2)).end(returned);
      await reach(({ completed }) => completed === 2);
    });

    it('is given up after the second time, with the attempts that it had', async () => {
      const { pool, reach, queue } = recovered(2, 2);
      (await pool.started(1)).end(returned);
      await reach(({ dead }) => dead === 2);
      expect(pool.bodies).to.deep.equal(['c']);
      for (const letter of await lettersOf(queue)) expect(letter).to.include({ attempts: 2 });
    });

    it('is given up when it has had all its attempts', async () => {
      const { pool, reach } = recovered(1, 5);
      (await pool.started(1)).end(returned);
      await reach(({ dead, completed }) => dead === 2 && completed === 1);
    });
  });

  describe('a task that crashed too often', () => {
    const crashTwice = async (isStored: (id: string) => boolean) => {
      const dispatching = startDispatching(new HandDrivenPool(1), { isStored });
      await dispatching.publish('a');
      (await dispatching.pool.started(1)).end(crashed);
      (await dispatching.pool.started(2)).end(crashed);
      return dispatching;
    };

    it('is done when its row is there: its thread died afterwards', async () => {
      const asked: string[] = [];
      const { reach, pool } = await crashTwice((id) => asked.push(id) > 0);
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0, delayed: 0, inFlight: 0 });
      expect(asked).to.deep.equal(['a']);
      expect(pool.runs).to.have.length(2);
    });

    it('is looked for again, not run again, when it is not known whether its row is there', async () => {
      let looks = 0;
      const { reach, pool, lines } = await crashTwice(() => {
        if (++looks === 1) throw new Error('no database');
        return false;
      });
      await reach(() => lines.some(({ level, task }) => level === 50 && task === 'a'));
      await reach(({ dead }) => dead === 1);
      expect(looks).to.equal(2);
      expect(pool.runs).to.have.length(2);
    });

    it('is looked for after another failure, too, once its thread has died', async () => {
      const { pool, publish, reach } = startDispatching(new HandDrivenPool(1), { isStored: () => true });
      await publish('a', 'b');
      (await pool.started(1)).end(crashed);
      (await pool.started(2)).end({ ended: 'raised', reason: 'bad data', permanent: true });
      (await pool.started(3)).end({ ended: 'raised', reason: 'bad data', permanent: true });
      // The one that never crashed has failed for good.
      expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 1 });
    });
  });

  it('logs a settlement that the queue fails at, at the end or before, and goes on', async () => {
    const queue = new ForgetfulQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 });
    const { pool, publish, lines, reach } = startDispatching(new HandDrivenPool(1), { queue });
    await publish('a', 'b');
    (await pool.started(1)).end(returned);
    (await pool.started(2)).settle('ack');
    await reach(() => lines.length === 2);
    expect(queue.counts()).to.include({ completed: 0, inFlight: 2 });
    expect(lines.map(({ level, msg, task }) => [level, msg, task])).to.deep.equal([
      [50, 'settling a task failed', 'a'],
      [50, 'settling a task failed', 'b'],
    ]);
  });

  it('counts as unsettled what is waiting, delayed or in flight', async () => {
    const { pool, publish, queue, reach } = start(1);
    expect(unsettled(queue)).to.equal(0);
    await publish(...'abcdefgh');
    expect(unsettled(queue)).to.equal(8);
    (await pool.started(1)).end(returned);
    await reach(({ completed }) => completed === 1);
    expect(unsettled(queue)).to.equal(7);
  });
});
