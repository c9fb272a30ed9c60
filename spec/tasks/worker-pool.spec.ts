import type { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { type PoolOutcome, type PoolRun, WorkerPool } from '../../main/tasks/worker-pool.ts';
import type { Settlement } from '../../workers/messages.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import type { SecondLoad } from '../support/task-threads/fails-second-load.ts';
import { Gate } from '../support/task-threads/gate.ts';
import { until } from '../support/until.ts';

const threadFile = (name: string) => new URL(`../support/task-threads/${name}.ts`, import.meta.url);

const limits = { threads: 1, maxBatch: 10, timeoutMs: 60_000, memoryMb: 64 };

interface PoolOptions {
  file?: string;
  threads?: number;
  workerData?: object;
  timeoutMs?: number;
  memoryMb?: number;
  writeLock?: SharedArrayBuffer;
}

/** Starts a pool whose threads do what the action of a task says, and that is taken down after the test. */
async function startPool({ file = 'behaviours', workerData = {}, ...options }: PoolOptions = {}) {
  const gate = new Gate();
  const { log, lines } = captureLog();
  const pool = await WorkerPool.start({
    file: threadFile(file),
    ...limits,
    ...options,
    workerData: { gate: gate.shared, ...workerData },
    log,
  });
  afterTest(() => pool.destroy());
  const give = (actions: string[], onSettled: (settlement: Settlement) => void = () => {}): PoolRun =>
    pool.run(actions.map((action) => ({ body: JSON.stringify({ action }), arrival: null, onSettled })));
  const runAll = (...given: Parameters<typeof give>): Promise<PoolOutcome[]> => give(...given).outcomes;
  const run = (action: string, onSettled: (settlement: Settlement) => void = () => {}): Promise<PoolOutcome> =>
    runAll([action], onSettled).then(([outcome]) => outcome as PoolOutcome);
  return { pool, gate, run, runAll, give, lines };
}

async function startFailure(file: string, threads = 2): Promise<Error> {
  const { log } = captureLog();
  return WorkerPool.start({ file: threadFile(file), ...limits, threads, workerData: {}, log }).then(
    async (pool) => {
      await pool.destroy();
      throw new Error('the pool started');
    },
    (error) => error,
  );
}

/** Returns a function that waits for as long as a pool gives one task. */
async function startTimedPool(timeoutMs: number): Promise<() => Promise<void>> {
  const { run } = await startPool({ timeoutMs });
  return async () => {
    expect(await run('never end')).to.deep.equal({ ended: 'crashed', reason: `took longer than ${timeoutMs} ms` });
  };
}

/** Collects the threads that start from now on, and counts the ended ones. */
function watchThreads() {
  const watched = { threads: [] as Worker[], ended: 0 };
  const remember = (thread: Worker) => {
    watched.threads.push(thread);
    thread.once('exit', () => {
      watched.ended += 1;
    });
  };
  process.on('worker', remember);
  afterTest(() => process.off('worker', remember));
  return watched;
}

describe('WorkerPool', () => {
  it('ends the turn to write of a dead thread, and of no thread outside the pool', async () => {
    const cell = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const { threads } = watchThreads();
    const { run } = await startPool({ writeLock: cell.buffer });
    const holders = [() => threads.at(-1)?.threadId as number, () => 1_000_000];
    const left: number[] = [];
    for (const holder of holders) {
      Atomics.store(cell, 0, holder());
      expect(await run('exit')).to.include({ ended: 'crashed' });
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
      left.push(Atomics.load(cell, 0));
    }
    expect(left).to.deep.equal([0, 1_000_000]);
  });

  describe('starting', () => {
    it('hears from every thread before it is there', async () => {
      const { pool, run, lines } = await startPool({ threads: 3 });
      expect(pool.threads).to.equal(3);
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
      expect(lines).to.deep.equal([]);
    });

    it('says why a file cannot be loaded, and leaves nothing running', async () => {
      const { message } = await startFailure('raises-on-load');
      expect(message).to.equal('the task threads do not start: this file cannot be loaded');
    });

    it('says so when the file is not there', async () => {
      expect((await startFailure('not-there')).message).to.match(/^the task threads do not start: .*not-there/);
    });

    it('says so when the file has no function to run', async () => {
      expect((await startFailure('exports-nothing')).message).to.match(/^the task threads do not start: .+/);
    });

    it('says so when a thread ends while it loads', async () => {
      expect((await startFailure('exits-on-load')).message).to.match(/^the task threads do not start: .+/);
    });
  });

  describe('running a task', () => {
    const outcomes: Record<string, PoolOutcome> = {
      return: { ended: 'returned' },
      'return later': { ended: 'returned' },
      'nack, then return': { ended: 'returned', settled: 'nack' },
      'ack, then nack': { ended: 'returned', settled: 'ack' },
      'ack, then raise': { ended: 'raised', settled: 'ack', reason: 'after the ack', permanent: false },
      raise: { ended: 'raised', reason: 'it failed', permanent: false },
      'raise later': { ended: 'raised', reason: 'it failed later', permanent: false },
      'raise for good': { ended: 'raised', reason: 'it will never work', permanent: true },
      'raise null': { ended: 'raised', reason: 'null', permanent: false },
      'raise undefined': { ended: 'raised', reason: 'undefined', permanent: false },
      'raise text': { ended: 'raised', reason: 'just text', permanent: false },
    };
    for (const [action, outcome] of Object.entries(outcomes)) {
      it(`tells the end of one that does: ${action}`, async () => {
        const { run } = await startPool();
        expect(await run(action)).to.deep.equal(outcome);
        expect(await run('return')).to.deep.equal({ ended: 'returned' });
      });
    }

    for (const action of ['raise what has no text', 'raise what cannot be copied']) {
      it(`does not take one for a crash that does: ${action}`, async () => {
        const { run } = await startPool();
        expect(await run(action)).to.include({ ended: 'raised', permanent: false });
        expect(await run('return')).to.deep.equal({ ended: 'returned' });
      });
    }

    it('tells of an early settlement while the handler still runs', async () => {
      for (const settlement of ['ack', 'nack'] as const) {
        const { run, gate } = await startPool();
        const settled = Promise.withResolvers<Settlement>();
        let ended = false;
        const outcome = run(`${settlement}, then wait`, settled.resolve).finally(() => {
          ended = true;
        });
        expect(await settled.promise).to.equal(settlement);
        await gate.begun(1);
        expect(ended).to.equal(false);
        gate.open();
        expect(await outcome).to.deep.equal({ ended: 'returned', settled: settlement });
      }
    });

    it('tells of a settlement at most once, to the task that it belongs to, and again with its end', async () => {
      const { run } = await startPool({ threads: 2 });
      const settlements: string[] = [];
      const [outcome, other] = await Promise.all([
        run('ack, then nack', (settlement) => settlements.push(settlement)),
        run('return', () => settlements.push('of the other')),
      ]);
      expect(outcome).to.deep.equal({ ended: 'returned', settled: 'ack' });
      expect(other).to.deep.equal({ ended: 'returned' });
      // The end may overtake the settlement, which is not told any more then.
      expect(settlements)
        .to.satisfy(({ length }: string[]) => length <= 1)
        .and.not.include('of the other');
    });

    it('runs as many at once as it has threads', async () => {
      const { run, gate } = await startPool({ threads: 2 });
      const all = ['wait', 'wait', 'wait'].map((action) => run(action));
      await gate.begun(2);
      gate.open();
      expect(await Promise.all(all)).to.deep.equal(Array(3).fill({ ended: 'returned' }));
      await gate.begun(3);
    });
  });

  describe('when a thread dies', () => {
    for (const action of ['exit', 'exit as if all were well', 'raise outside']) {
      it(`tells a crash and works on, after: ${action}`, async () => {
        const { run } = await startPool();
        const outcome = await run(action);
        expect(outcome).to.include({ ended: 'crashed' });
        expect(outcome)
          .to.have.property('reason')
          .that.matches(/^thread died: .+/);
        expect(await run('return')).to.deep.equal({ ended: 'returned' });
      });
    }

    it('leaves the task of the other thread unharmed', async () => {
      const { run, gate } = await startPool({ threads: 2 });
      const other = run('wait');
      await gate.begun(1);
      expect(await run('exit')).to.include({ ended: 'crashed' });
      gate.open();
      expect(await other).to.deep.equal({ ended: 'returned' });
    });

    it('has all its threads again afterwards', async () => {
      const { run, gate } = await startPool({ threads: 2 });
      await Promise.all([run('exit'), run('exit')]);
      const both = [run('wait'), run('wait')];
      await gate.begun(2);
      gate.open();
      expect(await Promise.all(both)).to.deep.equal(Array(2).fill({ ended: 'returned' }));
    });

    it('has told of a settlement that came before the end', async () => {
      const { run, gate } = await startPool();
      const settled = Promise.withResolvers<Settlement>();
      const outcome = run('ack, then exit', settled.resolve);
      expect(await settled.promise).to.equal('ack');
      gate.open();
      expect(await outcome).to.include({ ended: 'crashed' });
    });

    for (const fails of ['by an error', 'by its end'] as const) {
      it(`starts afresh when a new thread fails to load ${fails}`, async () => {
        const workerData: SecondLoad = { starts: new SharedArrayBuffer(8), fails };
        const { run } = await startPool({ file: 'fails-second-load', workerData });
        expect(await run('')).to.include({ ended: 'crashed' });
        // What was queued for the thread that did not come may be interrupted, but has to end.
        expect(await run(''))
          .to.have.property('ended')
          .that.is.oneOf(['interrupted', 'returned']);
        expect(await run('')).to.deep.equal({ ended: 'returned' });
        expect(new Int32Array(workerData.starts)[0]).to.equal(3);
      });
    }

    it('replaces a thread that dies while it has nothing to do', async () => {
      const { threads } = watchThreads();
      const { run } = await startPool();
      const before = await run('tell the thread');
      await threads[0]?.terminate();
      const after = await run('tell the thread');
      expect(after).to.include({ ended: 'raised' });
      expect(after).to.not.deep.equal(before);
      expect(threads).to.have.length(2);
    });
  });

  describe('with a task that', () => {
    it('hangs: ends its thread, and no other one', async () => {
      const watched = watchThreads();
      const { run } = await startPool({ threads: 2, timeoutMs: 200 });
      const hangs = run('hang');
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
      expect(await hangs).to.deep.equal({ ended: 'crashed', reason: 'took longer than 200 ms' });
      await until(() => watched.threads.length === 3);
      const both = await Promise.all([run('return'), run('return')]);
      expect(both).to.deep.equal(Array(2).fill({ ended: 'returned' }));
      expect(watched.ended).to.equal(1);
    });

    it('waits forever: ends its thread, too', async () => {
      const { run } = await startPool({ timeoutMs: 200 });
      expect(await run('never end')).to.deep.equal({ ended: 'crashed', reason: 'took longer than 200 ms' });
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
    });

    it('hangs, in a batch: blames that one, and neither what came before nor what comes after', async () => {
      const { runAll } = await startPool({ timeoutMs: 200 });
      const innocent = { ended: 'interrupted', reason: 'took longer than 200 ms', suspect: false };
      expect(await runAll(['return', 'hang', 'return'])).to.deep.equal([
        innocent,
        { ended: 'crashed', reason: 'took longer than 200 ms' },
        innocent,
      ]);
    });

    it('ends its thread, in a batch: blames that one', async () => {
      const { runAll } = await startPool();
      const outcomes = await runAll(['raise', 'return later', 'exit', 'return']);
      expect(outcomes.map(({ ended }) => ended)).to.deep.equal([
        'interrupted',
        'interrupted',
        'crashed',
        'interrupted',
      ]);
      expect(outcomes.some((outcome) => 'suspect' in outcome && outcome.suspect)).to.equal(false);
    });

    for (const [count, expected] of [
      [1, [['crashed', undefined]]],
      [
        2,
        [
          ['interrupted', true],
          ['interrupted', true],
        ],
      ],
    ] as const) {
      it(`ends its thread while rows are stored: suspects all of ${count}`, async () => {
        const { runAll } = await startPool({ file: 'exits-on-store' });
        const outcomes = await runAll(Array(count).fill('return'));
        expect(
          outcomes.map((outcome) => [outcome.ended, 'suspect' in outcome ? outcome.suspect : undefined]),
        ).to.deep.equal(expected);
      });
    }

    it('takes as long as all others of its batch together may not: is not counted as one that hangs', async () => {
      const { runAll } = await startPool({ timeoutMs: 1000 });
      const outcomes = await runAll(Array(11).fill('take 100 ms'));
      expect(outcomes).to.deep.equal(Array(11).fill({ ended: 'returned' }));
    });

    it('is claimed by a thread that was ended: all of its batch is tried again, and none is blamed', async () => {
      const { runAll } = await startPool({ file: 'claims-less' });
      const reason = 'a task of the batch was claimed by another thread';
      expect(await runAll(['return', 'return'])).to.deep.equal(
        Array(2).fill({ ended: 'interrupted', reason, suspect: false }),
      );
    });

    it('has its row stored slowly: is not blamed for that', async () => {
      const outlastLimit = await startTimedPool(200);
      const { runAll, gate } = await startPool({ file: 'stores-slowly', timeoutMs: 200 });
      const outcomes = runAll(Array(2).fill('return'));
      await gate.begun(1);
      await outlastLimit();
      gate.open();
      expect(await outcomes).to.deep.equal(Array(2).fill({ ended: 'returned' }));
    });

    it('waits for a thread: does not count that', async () => {
      const outlastLimit = await startTimedPool(200);
      const workerData = { starts: new SharedArrayBuffer(4) };
      const { run, gate } = await startPool({ file: 'loads-at-gate', timeoutMs: 200, workerData });
      expect(await run('')).to.include({ ended: 'crashed' });
      const waiting = run('');
      await gate.begun(1);
      await outlastLimit();
      gate.open();
      expect(await waiting).to.deep.equal({ ended: 'returned' });
    });

    it('eats memory: ends its thread, and no other one', async () => {
      const { run, gate } = await startPool({ threads: 2, memoryMb: 32 });
      const innocent = run('wait');
      await gate.begun(1);
      const outcome = await run('eat memory');
      expect(outcome).to.include({ ended: 'crashed' });
      expect(outcome)
        .to.have.property('reason')
        .that.matches(/^thread died: .*memory limit/);
      gate.open();
      expect(await innocent).to.deep.equal({ ended: 'returned' });
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
    });
  });

  describe('asked for a batch again', () => {
    it('gives back what its thread has not begun, and ends the rest', async () => {
      const { give, gate, run } = await startPool();
      const { outcomes, recall } = give(['return', 'wait', 'exit', 'exit']);
      await gate.begun(1);
      expect(recall()).to.equal(2);
      expect(recall()).to.equal(2);
      gate.open();
      expect(await outcomes).to.deep.equal(Array(2).fill({ ended: 'returned' }));
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
    });

    it('gives nothing back of one that has ended, or that waits for a thread', async () => {
      const { give, gate, runAll } = await startPool();
      const ended = give(['return', 'return']);
      await ended.outcomes;
      const running = give(['wait', 'return']);
      const waiting = give(['return', 'return']);
      await gate.begun(1);
      expect(ended.recall()).to.equal(2);
      expect(waiting.recall()).to.equal(2);
      gate.open();
      expect(await running.outcomes).to.deep.equal(Array(2).fill({ ended: 'returned' }));
      expect(await waiting.outcomes).to.deep.equal(Array(2).fill({ ended: 'returned' }));
      expect(await runAll(['return', 'return'])).to.have.length(2);
    });

    it('blames the only one that it kept, where its thread dies', async () => {
      const { give, gate } = await startPool();
      const { outcomes, recall } = give(['ack, then exit', 'return', 'return']);
      await gate.begun(1);
      expect(recall()).to.equal(1);
      gate.open();
      expect((await outcomes).map(({ ended }) => ended)).to.deep.equal(['crashed']);
    });

    it('blames the only one that it kept, where its thread dies while the row is stored', async () => {
      const { give, gate } = await startPool({ file: 'exits-on-store' });
      const { outcomes, recall } = give(['wait', 'return', 'return']);
      await gate.begun(1);
      expect(recall()).to.equal(1);
      gate.open();
      expect((await outcomes).map(({ ended }) => ended)).to.deep.equal(['crashed']);
    });
  });

  describe('taken down', () => {
    it('ends what runs and what waits as interrupted', async () => {
      const { pool, run, gate } = await startPool();
      const outcomes = [run('wait'), run('return')];
      await gate.begun(1);
      await pool.destroy();
      for (const outcome of await Promise.all(outcomes)) {
        expect(outcome).to.deep.equal({ ended: 'interrupted', reason: 'thread stopped', suspect: false });
      }
    });

    it('interrupts what comes afterwards, and may be taken down again', async () => {
      const { pool, run } = await startPool();
      await pool.destroy();
      await pool.destroy();
      expect(await run('return')).to.include({ ended: 'interrupted' });
    });
  });
});
