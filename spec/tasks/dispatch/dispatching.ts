import type { QueueCounts, TaskStore } from '../../../db/task-store.ts';
import { CallbackSender } from '../../../main/tasks/callbacks/callback-sender.ts';
import { Dispatcher, type DispatcherOptions } from '../../../main/tasks/dispatch/dispatcher.ts';
import { Queue } from '../../../main/tasks/queue.ts';
import type { QueueEvent } from '../../../main/tasks/task-events.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { openFreshStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

export const never = new Promise<void>(() => {});
export const now = Promise.resolve();

export type Dispatching = Awaited<ReturnType<typeof startDispatching>>;

/**
 * Starts a dispatcher between a queue in memory and a pool, on a clock that the spec advances.
 *
 * @param change changes the store, for example to make its writes fail
 */
export async function startDispatching(
  pool: HandDrivenPool = new HandDrivenPool(),
  options: Partial<Omit<DispatcherOptions, 'pool' | 'queue'>> = {},
  change: (store: TaskStore) => void = () => {},
) {
  const { log, lines } = captureLog();
  const clock = new ManualClock();
  const store: TaskStore = await openFreshStore({ now: () => clock.now() });
  change(store);
  const events: QueueEvent[] = [];
  const queue = await Queue.open({ store, onEvent: (event) => events.push(event), clock });
  const random = { number: () => 0.5 };
  const callbacks = new CallbackSender({ hosts: [], secrets: [], find: (id) => queue.find(id), clock, random });
  const parts = { queue, pool, callbacks, actions: new Map(), clock, random, log };
  const dispatcher = new Dispatcher({ ...parts, prefetch: 5, ...options });
  dispatcher.start();
  afterTest(() => dispatcher.stop(now));
  return {
    ...{ pool, queue, store, dispatcher, clock, events, lines },
    /** Publishes messages with these ids, one after another. */
    async publish(...ids: string[]): Promise<void> {
      for (const id of ids) {
        const body = `{"id":"${id}","action":"${id}","data":{},"created_at":1790000000}`;
        await queue.publish({ id, action: id, body });
      }
    },
    /** Lets time pass until the queue's counts fit, so that retries become due and settlements are written. */
    async reach(expected: Partial<QueueCounts>): Promise<void> {
      let counts: QueueCounts | undefined;
      const isReached = () =>
        Object.entries(expected).every(([name, count]) => counts?.[name as keyof QueueCounts] === count);
      await until(() => {
        clock.advance(5);
        void queue.counts().then((latest) => {
          counts = latest;
        });
        return isReached();
      });
    },
  };
}
