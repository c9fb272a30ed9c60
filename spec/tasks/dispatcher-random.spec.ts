import { expect } from 'chai';
import fc from 'fast-check';
import type { QueueCounts } from '../../main/tasks/queue/driver.ts';
import type { PoolOutcome } from '../../main/tasks/worker-pool.ts';
import { until } from '../support/until.ts';
import { startDispatching } from './dispatching.ts';
import { HandDrivenPool, type Run } from './hand-driven-pool.ts';

const outcomes: Record<string, PoolOutcome> = {
  returned: { ended: 'returned' },
  'returned after an ack': { ended: 'returned', settled: 'ack' },
  'returned after a nack': { ended: 'returned', settled: 'nack' },
  raised: { ended: 'raised', reason: 'it failed', permanent: false },
  'raised for good': { ended: 'raised', reason: 'bad data', permanent: true },
  crashed: { ended: 'crashed', reason: 'thread died' },
  interrupted: { ended: 'interrupted', reason: 'thread died', suspect: false },
  suspected: { ended: 'interrupted', reason: 'thread died', suspect: true },
};

/** Ends one of the runs that are open, in some way; or publishes one more task. */
const steps = fc.array(
  fc.record({
    does: fc.oneof(
      { weight: 2, arbitrary: fc.constant('publish') },
      { weight: 5, arbitrary: fc.constantFrom(...Object.keys(outcomes)) },
      { weight: 1, arbitrary: fc.constantFrom('ack early', 'nack early') },
    ),
    which: fc.nat(),
  }),
  { maxLength: 80 },
);

function balance({ completed, dead, dropped, waiting, delayed, inFlight }: QueueCounts): number {
  return completed + dead + dropped + waiting + delayed + inFlight;
}

describe('Dispatcher, whatever happens', () => {
  it('accounts for every task at any time, within its bounds, and settles each once in the end', async () => {
    const sizes = fc.record({
      threads: fc.integer({ min: 1, max: 3 }),
      prefetch: fc.integer({ min: 1, max: 9 }),
      maxBatch: fc.integer({ min: 1, max: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(sizes, steps, fc.boolean(), async ({ threads, prefetch, maxBatch }, all, stops) => {
        const pool = new HandDrivenPool(threads, maxBatch);
        const { queue, dispatcher, publish } = startDispatching(pool, { prefetch });
        let published = 0;
        const ended = new Set<Run>();
        const open = () => pool.runs.filter((run) => !ended.has(run));
        const check = () => {
          const counts = queue.counts();
          expect(counts.accepted).to.equal(published);
          expect(balance(counts)).to.equal(published);
          expect(counts.inFlight).to.be.at.most(prefetch);
          expect(pool.batches.every((size) => size >= 1 && size <= maxBatch)).to.equal(true);
        };
        const end = (run: Run, outcome: PoolOutcome) => {
          ended.add(run);
          run.end(outcome);
        };
        for (const { does, which } of all) {
          const running = open();
          const run = running[which % running.length];
          if (does === 'publish') await publish(String(published++));
          else if (run === undefined) continue;
          else if (does === 'ack early' || does === 'nack early') run.settle(does === 'ack early' ? 'ack' : 'nack');
          else end(run, outcomes[does] as PoolOutcome);
          check();
          await new Promise(setImmediate);
          check();
        }
        if (stops) {
          await dispatcher.stop(Promise.resolve());
          expect(queue.counts().inFlight).to.equal(0);
          check();
        } else {
          let drained = false;
          const draining = dispatcher.drain(new Promise(() => {})).then(() => {
            drained = true;
          });
          await until(() => {
            for (const run of open()) end(run, { ended: 'returned' });
            return drained;
          });
          await draining;
          const { completed, dead, dropped } = queue.counts();
          expect(completed + dead + dropped).to.equal(published);
        }
        check();
        expect(pool.busy === 0 || !stops).to.equal(true);
        await dispatcher.stop(Promise.resolve());
      }),
      { numRuns: 100 },
    );
  });
});
