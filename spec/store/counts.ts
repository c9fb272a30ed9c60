import { expect } from 'chai';
import fc from 'fast-check';
import type { Delivery, QueueCounts, Settlement } from '../../db/task-store.ts';
import {
  cancel,
  complete,
  type Driver,
  discard,
  messageOf,
  purgeIn,
  type QueueTests,
  redriveIn,
  release,
  retry,
  searchIn,
  type TestQueue,
} from './stage.ts';

const BOUNDS = { maxLength: 12, maxBytes: 1000, maxKeys: 5 };
const PREFETCH = 4;

const SETTLEMENTS = ['complete', 'ack', 'retry', 'retry later', 'discard', 'release', 'cancel'] as const;
const OTHERS = [
  'settle all',
  'settle late',
  'cancel task',
  'redrive',
  'purge',
  'redrive all',
  'wait',
  'restart',
] as const;

type Operation =
  | { does: 'publish'; text: string; key: number }
  | { does: (typeof SETTLEMENTS)[number] | (typeof OTHERS)[number] | 'die'; which: number };

const operations = fc.array(
  fc.oneof(
    {
      weight: 2,
      arbitrary: fc.record({
        does: fc.constant('publish' as const),
        text: fc.string({ unit: 'grapheme' }),
        key: fc.nat(20),
      }),
    },
    { weight: 3, arbitrary: fc.record({ does: fc.constantFrom(...SETTLEMENTS), which: fc.nat(PREFETCH) }) },
    { weight: 2, arbitrary: fc.record({ does: fc.constantFrom(...OTHERS, 'die'), which: fc.nat(12) }) },
  ) as fc.Arbitrary<Operation>,
  { maxLength: 50 },
);

type End = 'completed' | 'dead' | 'dropped' | 'cancelled';

/** Expected contents of a store: the accepted tasks, and how each has ended. */
class Model {
  readonly ends = new Map<string, End | undefined>();
  /** Tasks that were acked, so that they have no row. */
  readonly acked = new Set<string>();
  readonly cancelRequested = new Set<string>();
  open: Delivery[] = [];
  /** Deliveries that are settled. */
  readonly past: Delivery[] = [];
  /** Ends by which the counts of the present store differ from those of all stores. */
  #before = new Map<End, number>();

  with(end: End | undefined): string[] {
    return [...this.ends].filter(([, each]) => each === end).map(([id]) => id);
  }

  /** Notes the start of a store, whose counts begin with the stored tasks. */
  begin(): void {
    for (const end of ['completed', 'dropped', 'cancelled'] as const) this.#before.set(end, this.with(end).length);
  }

  expected(isShared: boolean): Partial<QueueCounts> {
    const count = (end: End) => this.with(end).length - (isShared ? 0 : (this.#before.get(end) ?? 0));
    const ended = { completed: count('completed'), dropped: count('dropped'), cancelled: count('cancelled') };
    const dead = this.with('dead').length;
    const sum = ended.completed + ended.dropped + ended.cancelled + dead + this.with(undefined).length;
    return { ...ended, dead, accepted: sum, inFlight: this.open.length };
  }
}

const settlementOf = (does: string, now: number): Settlement => {
  if (does === 'retry') return retry(now);
  if (does === 'retry later') return retry(now + 1000, 'ä'.repeat(20), 'crash');
  if (does === 'discard') return discard();
  if (does === 'ack') return { kind: 'ack' };
  if (does === 'release') return release;
  return does === 'cancel' ? cancel : complete();
};

/** Settles deliveries and notes what becomes of their tasks. */
async function settleAll({ store }: TestQueue, model: Model, deliveries: Delivery[], settlement: Settlement) {
  const { effects } = await store.settle(deliveries.map((delivery) => ({ delivery, settlement })));
  for (const [index, delivery] of deliveries.entries()) {
    const { id } = delivery;
    const isCancelled = model.cancelRequested.has(id) && ['retry', 'release'].includes(settlement.kind);
    expect(effects[index]).to.equal(isCancelled ? 'cancelled' : 'applied');
    model.cancelRequested.delete(id);
    model.open = model.open.filter((each) => each !== delivery);
    model.past.push(delivery);
    if (isCancelled || settlement.kind === 'cancel') model.ends.set(id, 'cancelled');
    else if (settlement.kind === 'complete' || settlement.kind === 'ack') model.ends.set(id, 'completed');
    else if (settlement.kind === 'discard') model.ends.set(id, 'dead');
    if (settlement.kind === 'ack') model.acked.add(id);
  }
}

/** Expects that counts and tables agree with the model. */
async function check(queue: TestQueue, model: Model): Promise<void> {
  const { store } = queue;
  const counts = await store.counts();
  expect(counts).to.include(model.expected(store.isShared));
  const unfinished = model.with(undefined).sort();
  expect(unfinished.length).to.be.at.most(BOUNDS.maxLength);
  const states = (['waiting', 'scheduled', 'retrying', 'running'] as const).map((state) =>
    searchIn(store, { state }, 100),
  );
  const located = await Promise.all(states);
  const { waiting, scheduled, retrying, inFlight } = counts;
  expect(located.map(({ length }) => length)).to.deep.equal([waiting, scheduled, retrying, inFlight]);
  const all = located.flat();
  expect(all.map(({ id }) => id).sort()).to.deep.equal(unfinished);
  expect(counts.bytes).to.equal(all.reduce((sum, { bytes }) => sum + bytes, 0));
  expect((await queue.letters()).map(({ id }) => id).sort()).to.deep.equal(model.with('dead').sort());
  for (const [id, end] of model.ends) {
    const found = await store.find(id);
    const isGone = end === 'cancelled' || end === 'dropped' || model.acked.has(id);
    expect(found === undefined, id).to.equal(isGone);
    expect(found !== undefined && 'row' in found, id).to.equal(!isGone && end === 'completed');
  }
}

/** Defines the spec that nothing is lost or doubled, whatever is done to a store. */
export function describeCounts({ fresh }: QueueTests, { isDurable, randomRuns }: Driver): void {
  it('accounts for every task that it accepted, within its bounds, whatever is done to it', async () => {
    await fc.assert(
      fc.asyncProperty(operations, async (steps) => {
        const queue = await fresh(BOUNDS);
        const model = new Model();
        const apply = steppers(queue, model, isDurable);
        for (const [index, step] of steps.entries()) {
          queue.now += 1;
          await apply(step, `${index}`);
          if (!model.open.some(({ isSuspect }) => isSuspect))
            model.open.push(...(await queue.take(PREFETCH - model.open.length, model.open.length === 0)));
          await check(queue, model);
        }
        for (let turn = 0; model.with(undefined).length > 0; turn++) {
          expect(turn).to.be.below(100);
          await settleAll(queue, model, [...model.open], complete());
          queue.now += 1000;
          model.open.push(...(await queue.take(PREFETCH, true)));
          await check(queue, model);
        }
        await queue.store.close();
      }),
      { numRuns: randomRuns },
    );
  });
}

/** Returns a function that applies a step to a queue and to its model. */
function steppers(queue: TestQueue, model: Model, isDurable: boolean) {
  const publish = async (id: string, { text, key }: { text: string; key: number }) => {
    const keyed = key < 5 ? { key: `${key}`, fingerprint: 'x' } : undefined;
    const published = await queue.store.publish(messageOf(id, 'sum', { text }), keyed).catch(() => undefined);
    if (published?.isNew === true) model.ends.set(published.id, undefined);
    if (published?.isNew === false) expect(model.ends.has(published.id)).to.equal(true);
  };
  const settleLate = async () => {
    const late = model.past.map((delivery) => ({ delivery, settlement: complete('late') }));
    for (const effect of (await queue.store.settle(late)).effects) expect(effect).to.equal('late');
  };
  const cancelTask = async (which: number) => {
    const [id] = [...model.ends.keys()].slice(which);
    if (id === undefined) return;
    const end = model.ends.get(id);
    const hasEnded = end === 'dead' || (end === 'completed' && !model.acked.has(id));
    const live = model.open.some((delivery) => delivery.id === id) ? 'requested' : 'cancelled';
    const expected = hasEnded ? 'ended' : end === undefined ? live : undefined;
    expect(await queue.cancel(id)).to.equal(expected);
    if (expected === 'requested') model.cancelRequested.add(id);
    if (expected === 'cancelled') model.ends.set(id, 'cancelled');
  };
  const changeLetters = async (call: 'redrive' | 'purge', which: number, isAll: boolean) => {
    const letters = model.with('dead');
    const ids = letters.slice(which % Math.max(letters.length, 1)).slice(0, 2);
    const { done, remaining } = await (call === 'purge' ? purgeIn : redriveIn)(
      queue.store,
      isAll ? { all: true } : { ids },
    );
    for (const { id } of done) model.ends.set(id, call === 'purge' ? 'dropped' : undefined);
    expect(done.length + remaining).to.equal(isAll ? letters.length : ids.length);
  };
  const next = async (opened: Promise<void>) => {
    await opened;
    for (const { id } of model.open) if (model.cancelRequested.delete(id)) model.ends.set(id, 'cancelled');
    model.past.push(...model.open.splice(0));
    // Which deaths are third ones is for other specs.
    for (const { id } of await queue.letters()) model.ends.set(id, 'dead');
    model.begin();
  };
  return async (step: Operation, id: string): Promise<void> => {
    if (step.does === 'publish') return publish(id, step);
    const { does, which } = step;
    if (does === 'settle late') return settleLate();
    if (does === 'cancel task') return cancelTask(which);
    if (does === 'redrive' || does === 'purge') return changeLetters(does, which, false);
    if (does === 'redrive all') return changeLetters('redrive', which, true);
    if (does === 'wait') queue.now += 500;
    else if (does === 'settle all') await settleAll(queue, model, [...model.open], complete());
    else if (does === 'restart') {
      await settleAll(queue, model, [...model.open], release);
      await next(queue.restart());
    } else if (does === 'die') {
      if (isDurable) await next(queue.die());
    } else {
      const delivery = model.open[which % model.open.length];
      if (delivery !== undefined) await settleAll(queue, model, [delivery], settlementOf(does, queue.now));
    }
  };
}
