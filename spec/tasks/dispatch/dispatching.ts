import type { Delivery, QueueCounts, Settlement, TaskStore } from '../../../db/task-store.ts';
import { ValueRefused } from '../../../db/task-store.ts';
import { Dispatcher, type DispatcherOptions } from '../../../main/tasks/dispatch/dispatcher.ts';
import type { AttemptListener, Outcome } from '../../../main/tasks/pool/run.ts';
import { Queue } from '../../../main/tasks/queue.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { openFreshStore } from '../../support/store.ts';
import { Condition, until } from '../../support/until.ts';

export const never = new Promise<void>(() => {});
export const now = Promise.resolve();

export const returned: Outcome = { ended: 'returned', output: '1' };
export const raised: Outcome = { ended: 'raised', reason: 'it failed', permanent: false };

type Run = AttemptListener & { delivery: Delivery; end(outcome: Outcome): void };

/** Replacement of the task pool, or of the sender of callbacks. A spec ends each run with an outcome of its choice. */
class HandDrivenPool {
  readonly runs: Run[] = [];
  readonly isUsed = true;
  releases = 0;
  readonly releaseWaiting = () => void this.releases++;
  readonly #given = new Condition();

  get ids(): string {
    return this.runs.map(({ delivery }) => delivery.id).join('');
  }

  run(delivery: Delivery, listener: Pick<AttemptListener, 'onStart'>): Promise<Outcome> {
    const { promise, resolve: end } = Promise.withResolvers<Outcome>();
    this.runs.push({ delivery, ...(listener as AttemptListener), end });
    listener.onStart();
    this.#given.changed();
    return promise;
  }

  /** Waits for the `count`th run, counted from 1. */
  given(count: number) {
    return this.#given.found(() => this.runs[count - 1]);
  }

  cancel(delivery: Delivery): boolean {
    this.runs.find((each) => each.delivery === delivery)?.end({ ended: 'cancelled' });
    return false;
  }

  async stop(deadline = now): Promise<void> {
    await deadline;
    for (const { end } of this.runs) end({ ended: 'released', reason: 'stopped' });
  }
}

/** Records the takes and settlements of a store, and lets them fail as a spec says. It refuses results with `BAD`. */
function control(store: TaskStore) {
  const [take, settle] = [store.take.bind(store), store.settle.bind(store)];
  const faults: { take?: Error; settle?: Error; isLate?: boolean; gate?: Promise<void> } = {};
  const takes: { isIdle: boolean; written: number }[] = [];
  const settled: Settlement['kind'][] = [];
  let written = 0;
  store.take = async (max, isIdle) => {
    takes.push({ isIdle, written });
    const taken = faults.take ?? (await take(max, isIdle));
    await faults.gate;
    if (taken instanceof Error) throw taken;
    return taken;
  };
  store.settle = async (batch) => {
    settled.push(...batch.map(({ settlement }) => settlement.kind));
    if (faults.settle !== undefined) throw faults.settle;
    if (faults.isLate === true) return { effects: batch.map(() => 'late'), evicted: [] };
    // As PostgreSQL refuses NUL.
    if (batch.some(({ settlement }) => 'result' in settlement && settlement.result.includes('BAD')))
      throw new ValueRefused('invalid byte');
    const result = await settle(batch);
    written += batch.length;
    return result;
  };
  return { faults, takes, settled, isIdle: () => takes.at(-1)?.isIdle };
}

/** Starts a dispatcher between a queue in memory, a pool and a sender of callbacks, on a clock that the spec advances. */
export async function startDispatching({
  isStarted = true,
  ...options
}: { isStarted?: boolean } & Partial<Pick<DispatcherOptions, 'prefetch' | 'actions'>> = {}) {
  const { log } = captureLog();
  const clock = new ManualClock();
  const store: TaskStore = await openFreshStore({ now: () => clock.now() });
  const controlled = control(store);
  const queue = await Queue.open({ store, onEvent: () => {}, clock });
  const [pool, sender] = [new HandDrivenPool(), new HandDrivenPool()];
  const parts = { queue, pool, callbacks: sender, clock, random: { number: () => 0.5 }, log };
  const dispatcher = new Dispatcher({ ...parts, actions: new Map(), prefetch: 5, ...options });
  if (isStarted) dispatcher.start();
  afterTest(() => dispatcher.stop(now));
  const publish = async (ids: Iterable<string>, callbackUrl?: string) => {
    for (const id of ids) {
      const body = `{"id":"${id}","action":"${id}","data":{},"created_at":1790000000}`;
      await queue.publish({ id, action: id, body, callbackUrl });
    }
  };
  /** Publishes messages with these ids to a pool without runs, and waits until all run. */
  const run = async (ids: string) => {
    await publish(ids);
    await pool.given(ids.length);
    return pool.runs as [Run, ...Run[]];
  };
  /** Lets time pass until the queue's counts fit, so that retries become due and settlements are written. */
  const reach = async (expected: Partial<QueueCounts>) => {
    let counts: Partial<QueueCounts> = {};
    await until(() => {
      clock.advance(5);
      void queue.counts().then((latest) => {
        counts = latest;
      });
      return Object.entries(expected).every(([name, count]) => counts[name as keyof QueueCounts] === count);
    });
  };
  return { ...controlled, ...{ pool, sender, queue, store, dispatcher, clock, publish, run, reach } };
}
