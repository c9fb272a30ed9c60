import { deadLetterBounds, type QueueBounds } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { type CumulativeCounts, type Histogram, quantile } from '../../workers/shared/histogram.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { TaskPool } from './pool/task-pool.ts';
import type { Queue } from './queue.ts';
import { QueueHistory } from './queue-history.ts';

export interface QueueMonitorOptions {
  queue: Pick<Queue, 'counts' | 'isPaused'>;
  pool: Pick<TaskPool, 'threads' | 'overlap' | 'busy' | 'durations'>;
  dispatcher: { metrics: Pick<Dispatcher['metrics'], 'waits'> };
  bounds: Pick<QueueBounds, 'maxLength' | 'maxBytes'>;
  prefetch: number;
  /** Functions that return a reason why no task can be processed, or undefined. Called once per second. */
  problems: readonly (() => string | undefined)[];
  clock: Clock;
}

/** Reports the state and history of the queue, and checks once per second whether tasks can be processed. */
export class QueueMonitor {
  readonly #options: QueueMonitorOptions;
  readonly #history: QueueHistory;
  readonly #waiting: RecentDurations;
  readonly #running: RecentDurations;
  /** Current reason why no task can be processed. `since` is the Unix second in which processing stalled. */
  #stalled: { reason: string; since: number } | undefined;
  #isCounting = false;
  #cancelTick = () => {};

  constructor(options: QueueMonitorOptions) {
    this.#options = options;
    this.#history = new QueueHistory(options.clock.now());
    this.#waiting = new RecentDurations(options.dispatcher.metrics.waits);
    this.#running = new RecentDurations(options.pool.durations);
  }

  /** Starts to check and to count. Events before the call are not part of the history. */
  start(): void {
    void this.#count();
    this.#schedule();
  }

  /** Returns the fields of the response to `GET /queue` that are not counts. */
  status() {
    const { bounds, prefetch, pool, queue } = this.#options;
    return {
      limits: {
        length: bounds.maxLength,
        bytes: bounds.maxBytes,
        prefetch,
        dead_letters: deadLetterBounds.maxLength,
      },
      threads: { busy: pool.busy, total: pool.threads, overlap: pool.overlap },
      paused: queue.isPaused,
      stalled: this.#stalled ?? null,
      latency: {
        window_seconds: SAMPLE_SECONDS * MAX_SAMPLES,
        waiting: this.#waiting.percentiles() ?? null,
        running: this.#running.percentiles() ?? null,
      },
    };
  }

  /** Returns the numbers of events in the complete seconds after `since` (Unix seconds). */
  history(since?: number) {
    return this.#history.read(since);
  }

  stop(): void {
    this.#cancelTick();
  }

  #schedule(): void {
    const { clock } = this.#options;
    this.#cancelTick = clock.timer(1000 - (clock.now() % 1000), () => this.#tick());
  }

  #tick(): void {
    this.#schedule();
    this.#checkStall();
    this.#waiting.tick();
    this.#running.tick();
    void this.#count();
  }

  async #count(): Promise<void> {
    if (this.#isCounting) return;
    this.#isCounting = true;
    const { queue, clock } = this.#options;
    // Events that a failed count misses are counted by the next one.
    const counts = await queue.counts().catch(() => undefined);
    if (counts !== undefined) this.#history.advance(counts, clock.now());
    this.#isCounting = false;
  }

  #checkStall(): void {
    const { problems, clock } = this.#options;
    const reason = problems.map((problem) => problem()).find((found) => found !== undefined);
    const since = this.#stalled?.since ?? Math.floor(clock.now() / 1000);
    this.#stalled = reason === undefined ? undefined : { reason, since };
  }
}

const SAMPLE_SECONDS = 30;
const MAX_SAMPLES = 10;

/** Percentiles of the durations in a histogram over the last five minutes. */
export class RecentDurations {
  readonly #histogram: Histogram;
  readonly #samples: CumulativeCounts[];
  #secondsSinceSample = 0;

  constructor(histogram: Histogram) {
    this.#histogram = histogram;
    this.#samples = [histogram.cumulative()];
  }

  /** Must be called once per second. Every 30th call saves the counts of the histogram. */
  tick(): void {
    this.#secondsSinceSample += 1;
    if (this.#secondsSinceSample < SAMPLE_SECONDS) return;
    this.#secondsSinceSample = 0;
    this.#samples.push(this.#histogram.cumulative());
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
  }

  /**
   * Returns estimates in seconds with three significant digits, or undefined if no duration was counted. The period
   * depends on the age of the oldest sample.
   */
  percentiles(): { p50: number; p95: number; p99: number } | undefined {
    const now = this.#histogram.cumulative();
    const [oldest] = this.#samples as [CumulativeCounts];
    const upTo = now.upTo.map((count, bucket) => count - (oldest.upTo[bucket] as number));
    const recent = { upTo, count: now.count - oldest.count };
    if (recent.count === 0) return undefined;
    const estimate = (fraction: number) => Number(quantile(this.#histogram.bounds, recent, fraction).toPrecision(3));
    return { p50: estimate(0.5), p95: estimate(0.95), p99: estimate(0.99) };
  }
}
