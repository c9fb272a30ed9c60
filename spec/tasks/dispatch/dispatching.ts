import { Dispatcher, type DispatcherOptions } from '../../../main/tasks/dispatch/dispatcher.ts';
import { decide } from '../../../main/tasks/dispatch/retry-policy.ts';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import type { QueueCounts } from '../../../main/tasks/queue/queue.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog, type LogLine } from '../../support/log.ts';
import { until } from '../../support/until.ts';

export const returned = { ended: 'returned' } as const;
export const raised = { ended: 'raised', reason: 'it failed', permanent: false } as const;
export const raisedForGood = { ended: 'raised', reason: 'bad data', permanent: true } as const;
export const crashed = { ended: 'crashed', reason: 'thread died' } as const;
export const unstored = { ended: 'unstored', reason: 'disk full' } as const;
export const never = new Promise<void>(() => {});

/** A dispatcher between a memory queue and a pool. */
export interface Dispatching {
  queue: LocalQueue;
  dispatcher: Dispatcher;
  lines: LogLine[];
  /** Publishes messages, each with its id as its body. */
  publish(...ids: string[]): Promise<void>;
  /** Waits until the queue's counts fit. */
  reach(fits: (counts: QueueCounts) => boolean): Promise<QueueCounts>;
}

/** Starts a dispatcher that retries without delay and otherwise follows the retry policy. */
export function startDispatching<Pool extends DispatcherOptions['pool']>(
  pool: Pool,
  {
    queue = new LocalQueue({ maxLength: 1000, maxBytes: 100_000, maxKeys: 10 }),
    ...options
  }: Partial<Omit<DispatcherOptions, 'pool' | 'queue'>> & { queue?: LocalQueue } = {},
): Dispatching & { pool: Pool } {
  const { log, lines } = captureLog();
  const atOnce: typeof decide = (delivery, outcome, policy) => {
    const settlement = decide(delivery, outcome, policy);
    return settlement.kind === 'retry' ? { ...settlement, delayMs: 0 } : settlement;
  };
  const dispatcher = new Dispatcher({ queue, pool, prefetch: 5, decide: atOnce, log, ...options });
  dispatcher.start();
  afterTest(async () => {
    await dispatcher.stop(Promise.resolve());
    await queue.close();
  });
  return {
    pool,
    queue,
    dispatcher,
    lines,
    async publish(...ids) {
      for (const id of ids) await queue.publish({ id, body: id });
    },
    async reach(fits) {
      await until(() => fits(queue.counts()));
      return queue.counts();
    },
  };
}
