import { mock } from 'node:test';
import { expect } from 'chai';
import type { BatchOutcome } from '../../../main/tasks/pool/batch-runner.ts';
import type { WorkerPool } from '../../../main/tasks/pool/worker-pool.ts';
import type { Delivery } from '../../../main/tasks/queue/queue.ts';
import { died, nextTurn, returned, startPool } from './pooling.ts';
import { startRunner } from './running.ts';

const cancelled = { ended: 'cancelled' };
const withdrawn = { ended: 'interrupted', reason: 'cancelled' };

/** Starts a pool that remembers its deliveries, so that they can be cancelled by their ids. */
function startCancellingPool(options: Parameters<typeof startPool>[0] = {}) {
  const started = startPool(options);
  const deliveries = new Map<string, Delivery>();
  const { run } = started.pool;
  started.pool.run = function (this: WorkerPool, delivery, onStart) {
    deliveries.set(delivery.message.id, delivery);
    return run.call(this, delivery, onStart);
  };
  const cancel = async (id: string): Promise<boolean> => {
    const isWithdrawn = started.pool.cancel(deliveries.get(id) as Delivery);
    await nextTurn();
    return isWithdrawn;
  };
  return { ...started, cancel };
}

describe('WorkerPool.cancel', () => {
  it('withdraws a delivery that waits for a worker', async () => {
    const { run, end, cancel, ended, runner } = startCancellingPool({ threads: 1 });
    await run('a');
    await run('bc');
    expect(await cancel('b')).to.equal(true);
    expect(ended).to.deep.equal({ b: withdrawn });
    await end(0);
    expect(runner.given).to.deep.equal(['a', 'c']);
    expect(runner.cancelled).to.deep.equal([]);
  });

  it('withdraws a delivery of a batch that its worker has not started, and runs the others', async () => {
    const { run, end, cancel, ended, runner } = startCancellingPool({ threads: 1 });
    await run('abc');
    Object.assign(runner.batches[0] as object, { started: 1 });
    expect(await cancel('b')).to.equal(true);
    await end(0);
    expect(runner.given).to.deep.equal(['a', 'c']);
    await end(1);
    expect(ended).to.deep.equal({ a: returned, b: withdrawn, c: returned });
  });

  it('does nothing to a delivery that has ended', async () => {
    const { run, end, cancel, runner } = startCancellingPool();
    await run('a');
    await end(0);
    expect(await cancel('a')).to.equal(false);
    await run('b');
    runner.tasks[1]?.settle('ack');
    expect(await cancel('b')).to.equal(false);
    expect(runner.cancelled).to.deep.equal([]);
  });

  const outcomes: [what: string, outcome: BatchOutcome, expected: object][] = [
    ['returns', { ended: 'returned' }, returned],
    ['throws', { ended: 'raised', reason: 'no', permanent: false }, cancelled],
    ['throws a permanent error', { ended: 'raised', reason: 'no', permanent: true }, cancelled],
    ['throws because of its signal', { ended: 'interrupted', reason: 'cancelled', suspect: false }, cancelled],
    ['is terminated', { ended: 'interrupted', reason: 'a task of the batch was cancelled', suspect: false }, cancelled],
    ['crashes', died, cancelled],
    ['cannot be stored', { ended: 'unstored', reason: 'disk full' }, cancelled],
    ['returns after an ack', { ended: 'returned', settled: 'ack' }, returned],
    ['throws after an ack', { ended: 'raised', reason: 'no', permanent: true, settled: 'ack' }, returned],
    ['returns after a nack', { ended: 'returned', settled: 'nack' }, cancelled],
  ];
  for (const [what, outcome, expected] of outcomes) {
    it(`cancels a running delivery, whose outcome is ${(expected as BatchOutcome).ended} if it ${what}`, async () => {
      const { run, end, cancel, ended, runner } = startCancellingPool({ threads: 1 });
      await run('a');
      expect(await cancel('a')).to.equal(false);
      expect(await cancel('a')).to.equal(false);
      expect(runner.cancelled).to.deep.equal(['a', 'a']);
      await end(0, outcome);
      expect(ended).to.deep.equal({ a: expected });
      expect(runner.given).to.deep.equal(['a']);
    });
  }

  it('waits for the end of a handler that has failed its delivery after the cancellation', async () => {
    const { run, end, cancel, ended, runner } = startCancellingPool();
    await run('a');
    await cancel('a');
    runner.tasks[0]?.settle('nack');
    await nextTurn();
    expect(ended).to.deep.equal({});
    await end(0, { ended: 'returned', settled: 'nack' });
    expect(ended).to.deep.equal({ a: cancelled });
  });

  it('runs the other deliveries of a batch again whose thread was terminated, without a charge', async () => {
    const { run, end, cancel, ended, runner } = startCancellingPool({ threads: 1 });
    await run('abc');
    await cancel('b');
    const terminated = { ended: 'interrupted', reason: 'a task of the batch was cancelled', suspect: false } as const;
    await end(0, terminated, terminated, terminated);
    expect(ended).to.deep.equal({ b: cancelled });
    expect(runner.given).to.deep.equal(['abc', 'ac']);
    await end(1);
    expect(ended).to.deep.equal({ a: returned, b: cancelled, c: returned });
  });

  it('does not run a suspect that is cancelled while its start is recorded', async () => {
    const { run, cancel, ended, runner } = startCancellingPool();
    const recorded = Promise.withResolvers<void>();
    await run('a', { suspect: true }, () => recorded.promise);
    expect(await cancel('a')).to.equal(false);
    recorded.resolve();
    await nextTurn();
    await nextTurn();
    expect(ended).to.deep.equal({ a: cancelled });
    expect(runner.given).to.deep.equal([]);
  });

  it('tells that a delivery has started before its progress, and nothing of one that has ended', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    try {
      const { runner, run, progress, started } = startCancellingPool({ threads: 1 });
      await run('abc');
      expect(started).to.deep.equal(['a']);
      runner.tasks[1]?.report({ fraction: 0.5 });
      expect(started).to.deep.equal(['a', 'b']);
      runner.tasks[2]?.settle('ack');
      runner.tasks[2]?.report({ fraction: 1 });
      expect(progress).to.deep.equal([{ id: 'b', fraction: 0.5 }]);
    } finally {
      mock.timers.reset();
    }
  });
});

describe('BatchRunner, when a task is cancelled', () => {
  it('terminates its thread after the grace period, and blames no task', async () => {
    for (const action of ['hang', 'never end', 'wait']) {
      const { give, run, lines } = await startRunner({ graceMs: 20 });
      const batch = give(['return', action, 'return']);
      while (batch.started() < 2) await nextTurn();
      batch.cancel(1);
      batch.cancel(1);
      const reason = 'a task of the batch was cancelled';
      expect(await batch.outcomes, action).to.deep.equal(
        Array(3).fill({ ended: 'interrupted', reason, suspect: false }),
      );
      expect(await run('return')).to.deep.equal(returned);
      expect(lines).to.deep.equal([]);
    }
  });

  it('leaves the thread alone if the task ends in time', async () => {
    const { give, run, gate } = await startRunner({ graceMs: 60_000 });
    const { reason: thread } = (await run('tell the thread')) as { reason: string };
    const batch = give(['wait', 'return']);
    await gate.begun(1);
    batch.cancel(0);
    gate.open();
    expect(await batch.outcomes).to.deep.equal([returned, returned]);
    batch.cancel(0);
    expect(await run('tell the thread')).to.include({ reason: thread });
  });

  it('leaves the thread alone while another task of the batch runs', async () => {
    const { give, run, gate } = await startRunner({ graceMs: 0 });
    const { reason: thread } = (await run('tell the thread')) as { reason: string };
    const batch = give(['return', 'wait']);
    await gate.begun(1);
    batch.cancel(0);
    await elapse(20);
    gate.open();
    expect(await batch.outcomes).to.deep.equal([returned, returned]);
    expect(await run('tell the thread')).to.include({ reason: thread });
  });

  it('never terminates a thread that stores rows', async () => {
    const { give, gate } = await startRunner({ file: 'stores-slowly', graceMs: 0 });
    const batch = give(['return', 'return']);
    await gate.begun(1);
    for (const index of [0, 1]) batch.cancel(index);
    await elapse(20);
    gate.open();
    expect(await batch.outcomes).to.deep.equal([returned, returned]);
  });

  for (const actions of [['terminate', 'return'], ['terminate']]) {
    it(`runs and stores nothing more in a thread that is about to be terminated: ${actions}`, async () => {
      const counts = new Int32Array(new SharedArrayBuffer(12));
      const workerData = { counts: counts.buffer };
      const { runner, give, run } = await startRunner({ file: 'terminated', threads: 2, workerData });
      const batch = give(actions);
      while (Atomics.load(counts, 0) < 1) await nextTurn();
      // By the time the other thread has done this, the first one would have stored its rows.
      for (let count = 1; count <= 20; count++) await run('return');
      expect([...counts]).to.deep.equal([1, 20, 20]);
      await runner.destroy();
      expect(await batch.outcomes).to.have.nested.property('[0].ended', 'interrupted');
    });
  }

  it('leaves the other threads alone', async () => {
    const { give, run, gate } = await startRunner({ threads: 2, graceMs: 0 });
    const other = run('wait');
    await gate.begun(1);
    const batch = give(['hang']);
    while (batch.started() < 1) await nextTurn();
    batch.cancel(0);
    expect(await batch.outcomes).to.have.nested.property('[0].ended', 'interrupted');
    gate.open();
    expect(await other).to.deep.equal(returned);
  });
});

/** Waits until a thread has been terminated that was cancelled now, with a grace period of `ms` milliseconds. */
async function elapse(ms: number): Promise<void> {
  const { give } = await startRunner({ graceMs: ms });
  const batch = give(['hang']);
  while (batch.started() < 1) await nextTurn();
  batch.cancel(0);
  await batch.outcomes;
}
