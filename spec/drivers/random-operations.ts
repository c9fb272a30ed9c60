import { expect } from 'chai';
import fc from 'fast-check';
import type { Delivery, QueueCounts } from '../../main/tasks/queue/driver.ts';
import type { FreshQueue } from './inbox.ts';

const BOUNDS = { maxLength: 12, maxBytes: 60 };
const PREFETCH = 4;

/** One thing done to a queue; `which` picks a delivery among those that are open. */
type Operation =
  | { does: 'publish'; body: string }
  | { does: 'ack' | 'retry' | 'crash' | 'give up' | 'release' | 'settle twice' | 'turn'; which: number }
  | { does: 'retry letter' | 'delete letter'; which: number };

const operations = fc.array(
  fc.oneof(
    {
      weight: 2,
      arbitrary: fc.record({ does: fc.constant('publish' as const), body: fc.string({ unit: 'grapheme' }) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        does: fc.constantFrom(
          'ack',
          'retry',
          'crash',
          'give up',
          'release',
          'settle twice',
          'turn',
          'retry letter',
          'delete letter' as const,
        ),
        which: fc.nat(PREFETCH),
      }),
    },
  ) as fc.Arbitrary<Operation>,
  { maxLength: 60 },
);

/** Settles `delivery`; true when its message leaves the queue by that. */
async function settle(delivery: Delivery, does: Operation['does']): Promise<boolean> {
  switch (does) {
    case 'ack':
      await delivery.ack();
      return true;
    case 'give up':
      await delivery.nack({ verdict: 'dead', reason: 'no' });
      return true;
    case 'release':
      await delivery.release();
      return false;
    default:
      await delivery.nack({ verdict: 'retry', delayMs: 0, reason: 'no', crashed: does === 'crash' });
      return false;
  }
}

function expectBalance({ accepted, completed, dead, dropped, waiting, delayed, inFlight }: QueueCounts): void {
  expect(completed + dead + dropped + waiting + delayed + inFlight).to.equal(accepted);
}

/** What a driver's counts say holds at any time, whatever is done to it. */
export function describeCounts(fresh: FreshQueue): void {
  it('accounts for every message it accepted, within prefetch and bounds, whatever is done to it', async () => {
    await fc.assert(
      fc.asyncProperty(operations, async (steps) => {
        const queue = await fresh(BOUNDS);
        const open: Delivery[] = [];
        const unsettledBodies = new Map<string, string>();
        let wake = Promise.withResolvers<void>();
        queue.consume(PREFETCH, (delivery) => {
          open.push(delivery);
          wake.resolve();
          wake = Promise.withResolvers();
        });
        const check = () => {
          const counts = queue.counts();
          expectBalance(counts);
          expect(counts.inFlight).to.equal(open.length).and.to.be.at.most(PREFETCH);
          expect(counts.waiting + counts.delayed + counts.inFlight).to.equal(unsettledBodies.size);
          expect(unsettledBodies.size).to.be.at.most(BOUNDS.maxLength);
          const bytes = Buffer.byteLength([...unsettledBodies.values()].join(''));
          expect(counts.bytes).to.equal(bytes).and.to.be.at.most(BOUNDS.maxBytes);
        };
        const end = async (delivery: Delivery, does: Operation['does']) => {
          open.splice(open.indexOf(delivery), 1);
          if (await settle(delivery, does)) unsettledBodies.delete(delivery.message.id);
          if (does === 'settle twice') await delivery.ack();
        };

        let accepted = 0;
        for (const [id, step] of steps.entries()) {
          if (step.does === 'publish') {
            const message = { id: String(id), body: step.body };
            unsettledBodies.set(message.id, message.body);
            const taken = await queue.publish(message).then(
              () => true,
              () => false,
            );
            if (taken) accepted += 1;
            else unsettledBodies.delete(message.id);
          } else if (step.does === 'turn') {
            await new Promise(setImmediate);
          } else if (step.does === 'retry letter' || step.does === 'delete letter') {
            const letters = await queue.deadLetters();
            const letter = letters[step.which % letters.length];
            if (letter === undefined) continue;
            if (step.does === 'delete letter') {
              expect(await queue.deleteDeadLetter(letter.id)).to.equal(true);
            } else {
              unsettledBodies.set(letter.id, letter.body);
              const taken = await queue.retryDeadLetter(letter.id).catch(() => false);
              if (!taken) unsettledBodies.delete(letter.id);
            }
          } else {
            const delivery = open[step.which % open.length];
            if (delivery !== undefined) await end(delivery, step.does);
          }
          check();
        }
        while (unsettledBodies.size > 0) {
          const delivery = open[0];
          if (delivery === undefined) await wake.promise;
          else await end(delivery, 'ack');
          check();
        }
        const { completed, dead, dropped, ...rest } = queue.counts();
        expect(completed + dead + dropped).to.equal(accepted);
        expect(rest).to.deep.equal({ accepted, waiting: 0, delayed: 0, inFlight: 0, bytes: 0 });
        await queue.close();
      }),
      { numRuns: 100 },
    );
  });
}
