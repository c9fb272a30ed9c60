import { Dispatcher, type DispatcherOptions } from '../../main/tasks/dispatcher.ts';
import type { QueueCounts } from '../../main/tasks/queue/driver.ts';
import { MemoryQueue } from '../../main/tasks/queue/memory.ts';
import { judge } from '../../main/tasks/retry-policy.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog, type LogLine } from '../support/log.ts';
import { until } from '../support/until.ts';

/** A dispatcher between a memory queue and some pool. */
export interface Dispatching {
  queue: MemoryQueue;
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
    queue = new MemoryQueue({ maxLength: 1000, maxBytes: 100_000, maxKeys: 10 }),
    ...options
  }: Partial<Omit<DispatcherOptions, 'pool' | 'queue'>> & { queue?: MemoryQueue } = {},
): Dispatching & { pool: Pool } {
  const { log, lines } = captureLog();
  const atOnce: typeof judge = (delivery, failure) => {
    const verdict = judge(delivery, failure);
    return verdict.verdict === 'retry' ? { ...verdict, delayMs: 0 } : verdict;
  };
  const dispatcher = new Dispatcher({ queue, pool, prefetch: 5, judge: atOnce, log, ...options });
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
