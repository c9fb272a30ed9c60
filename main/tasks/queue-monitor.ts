import { deadLetterBounds, type QueueBounds } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { type CumulativeCounts, type Histogram, quantile } from '../../workers/shared/histogram.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { ThreadPool } from './pool/thread-pool.ts';
import type { Queue } from './queue.ts';
import { queueHistory } from './queue-history.ts';

interface QueueMonitorOptions {
  queue: Pick<Queue, 'counts' | 'isPaused' | 'pausedAt'>;
  pool: Pick<ThreadPool, 'threads' | 'overlap' | 'busy' | 'durations'>;
  dispatcher: { metrics: Pick<Dispatcher['metrics'], 'waits'> };
  bounds: Pick<QueueBounds, 'maxLength' | 'maxBytes'>;
  prefetch: number;
  /** Functions that return a reason why no task can be processed, or undefined. Called once per second. */
  problems: readonly (() => string | undefined)[];
  /** Returns why the changed handlers module cannot be used, if it cannot. */
  moduleProblem?: () => string | undefined;
  clock: Clock;
}

export type QueueMonitor = ReturnType<typeof createQueueMonitor>;

/** Reports the state and history of the queue, and checks once per second whether tasks can be processed. */
export function createQueueMonitor(options: QueueMonitorOptions) {
  const { queue, pool, dispatcher, bounds, prefetch, problems, clock } = options;
  const history = queueHistory(clock.now());
  const waiting = recentDurations(dispatcher.metrics.waits);
  const running = recentDurations(pool.durations);
  /** Current reason why no task can be processed. `since` is the Unix second in which processing stalled. */
  let stalled: { reason: string; since: number } | undefined;
  let isCounting = false;
  let cancelTick = () => {};

  const tick = () => {
    const reason = problems.map((problem) => problem()).find((found) => found !== undefined);
    const since = stalled?.since ?? Math.floor(clock.now() / 1000);
    stalled = reason === undefined ? undefined : { reason, since };
    waiting.tick();
    running.tick();
    start();
  };

  const count = async () => {
    if (isCounting) return;
    isCounting = true;
    // Events that a failed count misses are counted by the next one.
    const counts = await queue.counts().catch(() => undefined);
    if (counts !== undefined) history.advance(counts, clock.now());
    isCounting = false;
  };

  /** Counts now, and checks and counts at the start of each second. Events before the call are not part of the history. */
  function start(): void {
    cancelTick = clock.timer(1000 - (clock.now() % 1000), tick);
    void count();
  }

  return {
    start,
    stop: () => cancelTick(),
    /** Returns the fields of the response to `GET /queue` that are not counts. */
    status: () => ({
      limits: {
        length: bounds.maxLength,
        bytes: bounds.maxBytes,
        prefetch,
        dead_letters: deadLetterBounds.maxLength,
      },
      threads: { busy: pool.busy, total: pool.threads, overlap: pool.overlap },
      paused: queue.isPaused,
      paused_at_ms: queue.pausedAt,
      stalled: stalled ?? null,
      module_problem: options.moduleProblem?.(),
      latency: {
        window_seconds: SAMPLE_SECONDS * MAX_SAMPLES,
        waiting: waiting.percentiles() ?? null,
        running: running.percentiles() ?? null,
      },
    }),
    history: (since?: number) => history.read(since),
  };
}

const SAMPLE_SECONDS = 30;
const MAX_SAMPLES = 10;

/** Returns the percentiles of the durations in a histogram over the last five minutes. */
export function recentDurations(histogram: Histogram) {
  const samples: CumulativeCounts[] = [histogram.cumulative()];
  let seconds = 0;
  return {
    /** Must be called once per second. Every 30th call saves the counts of the histogram. */
    tick(): void {
      seconds += 1;
      if (seconds % SAMPLE_SECONDS > 0) return;
      samples.push(histogram.cumulative());
      if (samples.length > MAX_SAMPLES) samples.shift();
    },
    /** Returns estimates in seconds with three significant digits, or undefined if no duration was counted. */
    percentiles() {
      const now = histogram.cumulative();
      const [oldest] = samples as [CumulativeCounts];
      const upTo = now.upTo.map((count, bucket) => count - (oldest.upTo[bucket] as number));
      const recent = { upTo, count: now.count - oldest.count };
      if (recent.count === 0) return undefined;
      const estimate = (fraction: number) => Number(quantile(histogram.bounds, recent, fraction).toPrecision(3));
      return { p50: estimate(0.5), p95: estimate(0.95), p99: estimate(0.99) };
    },
  };
}
