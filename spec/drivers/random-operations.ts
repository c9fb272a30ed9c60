import { expect } from 'chai';
import fc from 'fast-check';
import { type BytesOf, discard, type FreshQueue, lettersOf, openInbox, type Received, retry } from './inbox.ts';

const BOUNDS = { maxLength: 12, maxBytes: 60 };
const PREFETCH = 4;

/** One operation on a queue. `which` picks an unsettled delivery or a dead letter. */
type Operation =
  | { does: 'publish'; body: string }
  | {
      does: 'ack' | 'retry' | 'crash' | 'give up' | 'release' | 'settle twice' | 'cancel delivery' | 'turn';
      which: number;
    }
  | { does: 'retry letter' | 'delete letter' | 'cancel'; which: number };

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
          'cancel delivery',
          'cancel',
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

/** Settles `delivery`. @returns the counter that its message moves to if it leaves the queue */
async function settle(
  delivery: Received,
  does: Operation['does'],
): Promise<'completed' | 'dead' | 'cancelled' | undefined> {
  switch (does) {
    case 'ack':
      await delivery.ack();
      return 'completed';
    case 'give up':
      await delivery.settle(discard());
      return 'dead';
    case 'cancel delivery':
      await delivery.settle({ kind: 'cancel' });
      return 'cancelled';
    case 'release':
      await delivery.release();
      return undefined;
    default:
      await delivery.settle({ ...retry(0, does === 'crash' ? 'crash' : 'transient'), reason: 'no' });
      return undefined;
  }
}

/** Defines the spec that a driver's counts are correct after random operations, in `numRuns` queues. */
export function describeCounts(fresh: FreshQueue, bytesOf: BytesOf, numRuns: number): void {
  it('accounts for every message it accepted, within prefetch and bounds, whatever is done to it', async () => {
    await fc.assert(
      fc.asyncProperty(operations, async (steps) => {
        const queue = await fresh(BOUNDS);
        const open: Received[] = [];
        const unsettled = new Map<string, { body: string; reason: string | null }>();
        // Counted here because a driver may derive `accepted` from the other counts.
        const ended = { completed: 0, dead: 0, dropped: 0, cancelled: 0 };
        let accepted = 0;
        const inbox = openInbox(queue);
        // No worker has started any delivery, so every delivery can be withdrawn.
        queue.onCancel(() => true);
        const check = () => {
          const counts = queue.counts();
          expect(counts).to.include(ended).and.to.include({ accepted });
          expect(counts.inFlight).to.equal(open.length).and.to.be.at.most(PREFETCH);
          expect(counts.waiting + counts.delayed + counts.inFlight).to.equal(unsettled.size);
          expect(unsettled.size).to.be.at.most(BOUNDS.maxLength);
          const sum = (bytes: number[]) => bytes.reduce((total, each) => total + each, 0);
          expect(counts.bytes).to.equal(sum([...unsettled.values()].map(bytesOf)));
          const bodies = [...unsettled.values()].map(({ body }) => bytesOf({ body, reason: null }));
          expect(sum(bodies)).to.be.at.most(BOUNDS.maxBytes);
        };
        const end = async (delivery: Received, does: Operation['does']) => {
          if (open.includes(delivery)) open.splice(open.indexOf(delivery), 1);
          const { id, body } = delivery.message;
          const end = await settle(delivery, does);
          if (end !== undefined) {
            unsettled.delete(id);
            ended[end] += 1;
          } else if (does !== 'release') {
            unsettled.set(id, { body, reason: 'no' });
          }
          if (does === 'settle twice') await delivery.ack();
        };

        for (const [id, step] of steps.entries()) {
          if (step.does === 'publish') {
            const message = { id: String(id), body: step.body };
            unsettled.set(message.id, { body: message.body, reason: null });
            const taken = await queue.publish(message).then(
              () => true,
              () => false,
            );
            if (taken) accepted += 1;
            else unsettled.delete(message.id);
          } else if (step.does === 'turn') {
            await new Promise(setImmediate);
          } else if (step.does === 'cancel') {
            const [id] = [...unsettled.keys()].slice(step.which % Math.max(unsettled.size, 1));
            if (id === undefined) continue;
            expect(await queue.cancel(id)).to.equal('cancelled');
            unsettled.delete(id);
            ended.cancelled += 1;
            const index = open.findIndex(({ message }) => message.id === id);
            if (index >= 0) open.splice(index, 1);
          } else if (step.does === 'retry letter' || step.does === 'delete letter') {
            const letters = await lettersOf(queue);
            const letter = letters[step.which % letters.length];
            if (letter === undefined) continue;
            if (step.does === 'delete letter') {
              expect(await queue.purge(letter.id)).to.equal(true);
              ended.dead -= 1;
              ended.dropped += 1;
            } else {
              unsettled.set(letter.id, { body: letter.body, reason: null });
              const taken = await queue.redrive(letter.id).catch(() => false);
              if (taken) ended.dead -= 1;
              else unsettled.delete(letter.id);
            }
          } else {
            const delivery = open[step.which % open.length];
            if (delivery !== undefined) await end(delivery, step.does);
          }
          open.push(...(await inbox.takeReady(PREFETCH - open.length)));
          check();
        }
        while (unsettled.size > 0) {
          await end(open[0] ?? (await inbox.next()), 'ack');
          check();
        }
        expect(ended.completed + ended.dead + ended.dropped + ended.cancelled).to.equal(accepted);
        expect(queue.counts()).to.deep.equal({ ...ended, accepted, waiting: 0, delayed: 0, inFlight: 0, bytes: 0 });
        expect(await lettersOf(queue)).to.have.lengthOf(ended.dead);
        await queue.close();
      }),
      { numRuns },
    );
  });
}
