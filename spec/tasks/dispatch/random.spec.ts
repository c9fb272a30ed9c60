import { expect } from 'chai';
import fc from 'fast-check';
import type { BatchOutcome } from '../../../main/tasks/pool/batch-runner.ts';
import { WorkerPool } from '../../../main/tasks/pool/worker-pool.ts';
import type { QueueCounts } from '../../../main/tasks/queue/queue.ts';
import { until } from '../../support/until.ts';
import { HandDrivenRunner, type RunningTask } from '../pool/hand-driven-runner.ts';
import { never, startDispatching } from './dispatching.ts';

const outcomes: Record<string, BatchOutcome> = {
  returned: { ended: 'returned' },
  'returned after an ack': { ended: 'returned', settled: 'ack' },
  'returned after a nack': { ended: 'returned', settled: 'nack' },
  raised: { ended: 'raised', reason: 'it failed', permanent: false },
  'raised for good': { ended: 'raised', reason: 'bad data', permanent: true },
  crashed: { ended: 'crashed', reason: 'thread died' },
  interrupted: { ended: 'interrupted', reason: 'thread died', suspect: false },
  suspected: { ended: 'interrupted', reason: 'thread died', suspect: true },
};

/** Steps that end a running task with a random outcome or publish another task. */
const steps = fc.array(
  fc.record({
    does: fc.oneof(
      { weight: 2, arbitrary: fc.constant('publish') },
      { weight: 5, arbitrary: fc.constantFrom(...Object.keys(outcomes)) },
      { weight: 1, arbitrary: fc.constantFrom('ack early', 'nack early', 'cancel', 'cancel') },
    ),
    which: fc.nat(),
  }),
  { maxLength: 80 },
);

function balance({ completed, dead, dropped, cancelled, waiting, delayed, inFlight }: QueueCounts): number {
  return completed + dead + dropped + cancelled + waiting + delayed + inFlight;
}

describe('Dispatcher and WorkerPool, whatever happens', () => {
  it('account for every task at any time, within their bounds, and settle each once in the end', async () => {
    const sizes = fc.record({
      threads: fc.integer({ min: 1, max: 3 }),
      prefetch: fc.integer({ min: 1, max: 9 }),
      maxBatch: fc.integer({ min: 1, max: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(sizes, steps, fc.boolean(), async ({ threads, prefetch, maxBatch }, all, stops) => {
        const runner = new HandDrivenRunner(threads);
        const pool = new WorkerPool(runner, maxBatch);
        const { queue, dispatcher, publish } = startDispatching(pool, { prefetch });
        let published = 0;
        const ended = new Set<RunningTask>();
        const open = () => runner.tasks.filter((task) => !ended.has(task));
        const check = () => {
          const counts = queue.counts();
          expect(counts.accepted).to.equal(published);
          expect(balance(counts)).to.equal(published);
          expect(counts.inFlight).to.be.at.most(prefetch);
          expect(pool.busy).to.be.at.most(threads);
          expect(runner.batches.every(({ tasks }) => tasks.length >= 1 && tasks.length <= maxBatch)).to.equal(true);
        };
        const end = (task: RunningTask, outcome: BatchOutcome) => {
          ended.add(task);
          task.end(outcome);
        };
        for (const { does, which } of all) {
          const running = open();
          const task = running[which % running.length];
          if (does === 'publish') await publish(String(published++));
          else if (does === 'cancel') await queue.cancel(String(which % Math.max(published, 1)));
          else if (task === undefined) continue;
          else if (does === 'ack early' || does === 'nack early') task.settle(does === 'ack early' ? 'ack' : 'nack');
          else end(task, outcomes[does] as BatchOutcome);
          check();
          await new Promise(setImmediate);
          check();
        }
        if (stops) {
          await dispatcher.stop(Promise.resolve());
          expect(queue.counts().inFlight).to.equal(0);
          expect(pool.busy).to.equal(0);
        } else {
          let drained = false;
          const draining = dispatcher.drain(never).then(() => {
            drained = true;
          });
          await until(() => {
            for (const task of open()) end(task, { ended: 'returned' });
            return drained;
          });
          await draining;
          const { completed, dead, dropped, cancelled } = queue.counts();
          expect(completed + dead + dropped + cancelled).to.equal(published);
        }
        check();
        for (const task of open()) end(task, { ended: 'returned' });
        await dispatcher.stop(never);
      }),
      { numRuns: 100 },
    );
  });
});
