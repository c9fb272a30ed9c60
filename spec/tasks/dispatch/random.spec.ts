import { expect } from 'chai';
import fc from 'fast-check';
import { never, now, startDispatching } from './dispatching.ts';
import {
  crashed,
  HandDrivenPool,
  type HandDrivenRun,
  raised,
  raisedForGood,
  released,
  returned,
} from './hand-driven-pool.ts';

const outcomes = {
  return: returned,
  raise: raised,
  'raise for good': raisedForGood,
  crash: crashed,
  release: released,
};

const STEPS = [...Object.keys(outcomes), 'publish', 'publish', 'publish', 'cancel', 'ack', 'nack', 'wait', 'pause'];
const steps = fc.array(fc.record({ does: fc.constantFrom(...STEPS), which: fc.nat(20) }), { maxLength: 60 });

describe('Dispatcher, whatever happens', () => {
  it('accounts for every task at any time, within its window, and settles each once in the end', async () => {
    const sizes = fc.record({ threads: fc.integer({ min: 1, max: 3 }), prefetch: fc.integer({ min: 1, max: 9 }) });
    await fc.assert(
      fc.asyncProperty(sizes, steps, async ({ threads, prefetch }, all) => {
        const pool = new HandDrivenPool(threads);
        const { queue, dispatcher, publish, clock } = await startDispatching(pool, { prefetch });
        let published = 0;
        const settled = new Set<HandDrivenRun>();
        const balance = async () => {
          const { accepted, completed, dead, dropped, cancelled, waiting, delayed, inFlight } = await queue.counts();
          expect(accepted).to.equal(published);
          expect(completed + dead + dropped + cancelled + waiting + delayed + inFlight).to.equal(published);
          expect(pool.open.filter((run) => !settled.has(run)).length).to.be.at.most(prefetch);
        };
        for (const { does, which } of all) {
          const started = pool.open.filter(({ isStarted }) => isStarted);
          const run = started[which % started.length];
          if (does === 'publish') await publish(String.fromCodePoint(0x100 + published++));
          else if (does === 'cancel') void queue.cancel(String.fromCodePoint(0x100 + (which % Math.max(published, 1))));
          else if (does === 'wait') clock.advance(which * 1000);
          else if (does === 'pause') await (queue.isPaused ? queue.resume() : queue.pause());
          else if (run === undefined) continue;
          else if (does === 'ack' || does === 'nack') {
            if (!settled.has(run)) run.onAcknowledged(does);
            settled.add(run);
          } else run.end(outcomes[does as keyof typeof outcomes]);
          await new Promise(setImmediate);
          await balance();
        }
        await queue.resume();
        let isDrained = false;
        void dispatcher.drain(never).then(() => {
          isDrained = true;
        });
        while (!isDrained) {
          for (const run of pool.open) run.end(run.isStarted ? returned : released);
          clock.advance(60_000);
          await new Promise(setImmediate);
        }
        const { completed, dead, dropped, cancelled: ended } = await queue.counts();
        expect(completed + dead + dropped + ended).to.equal(published);
        await dispatcher.stop(now);
        expect(pool.open).to.deep.equal([]);
      }),
      { numRuns: 60 },
    );
  });
});
