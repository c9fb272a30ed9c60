import type { Histogram } from '../../../workers/histogram.ts';
import { type Dispatcher, unsettled } from '../dispatch/dispatcher.ts';
import type { WorkerPool } from '../pool/worker-pool.ts';
import { deadLetterBounds } from '../queue/dead-letter-store.ts';
import type { Queue, QueueBounds } from '../queue/queue.ts';
import type { HistoryAnswer, QueueHistory } from './queue-history.ts';
import { type Percentiles, RecentDurations } from './recent-durations.ts';

export interface QueueLimits {
  /** Maximum number of unsettled messages. */
  length: number;
  /** Maximum total size of unsettled messages, in bytes. */
  bytes: number;
  deadLetters: number;
  /** Maximum number of deliveries in flight on a node. */
  prefetch: number;
}

/** Current reason why no task can be processed. `since` is the Unix second in which processing stalled. */
export interface Stall {
  reason: string;
  since: number;
}

export interface QueueStatus {
  limits: QueueLimits;
  /** Age of the oldest unsettled message, in seconds. Undefined if the queue is empty. */
  oldestAge: number | undefined;
  threads: { busy: number; total: number };
  paused: boolean;
  stalled: Stall | undefined;
  /**
   * Time in seconds from acceptance to first attempt, for the tasks whose first attempt ended in the last five minutes.
   * Undefined if there are no such tasks.
   */
  waiting: Percentiles | undefined;
  /** Durations in seconds of the attempts that ended in the last five minutes. Undefined if no attempt ended. */
  running: Percentiles | undefined;
}

export interface QueueMonitorOptions {
  history: QueueHistory;
  queue: Pick<Queue, 'counts' | 'oldest' | 'paused'>;
  pool: Pick<WorkerPool, 'threads' | 'busy' | 'durations'>;
  dispatcher: { metrics: Pick<Dispatcher['metrics'], 'waits'> };
  bounds: Pick<QueueBounds, 'maxLength' | 'maxBytes'>;
  prefetch: number;
  /** Functions that return a reason why no task can be processed, or undefined. Called once per second. */
  problems: readonly (() => string | undefined)[];
  now?: () => number;
}

/** Reports the state and history of the queue, and checks once per second whether tasks can be processed. */
export class QueueMonitor {
  readonly #options: QueueMonitorOptions;
  readonly #now: () => number;
  readonly #waiting: RecentDurations;
  readonly #running: RecentDurations;
  #stalled: Stall | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: QueueMonitorOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#waiting = new RecentDurations([options.dispatcher.metrics.waits]);
    this.#running = new RecentDurations(options.pool.durations as [Histogram, ...Histogram[]]);
    this.#schedule();
  }

  status(): QueueStatus {
    const { bounds, prefetch, pool, queue } = this.#options;
    const oldest = queue.oldest();
    return {
      limits: {
        length: bounds.maxLength,
        bytes: bounds.maxBytes,
        deadLetters: deadLetterBounds.maxLength,
        prefetch,
      },
      oldestAge: oldest === undefined ? undefined : Math.max(0, this.#now() - oldest) / 1000,
      threads: { busy: pool.busy, total: pool.threads },
      paused: queue.paused,
      stalled: this.#stalled,
      waiting: this.#waiting.percentiles(),
      running: this.#running.percentiles(),
    };
  }

  /** Returns the counts of the complete seconds after `since` (Unix seconds). */
  history(since?: number): HistoryAnswer {
    this.#advance();
    return this.#options.history.read(since);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    this.#timer = setTimeout(() => this.#tick(), 1000 - (this.#now() % 1000)).unref();
  }

  #tick(): void {
    this.#schedule();
    this.#advance();
    this.#checkStall();
    this.#waiting.tick();
    this.#running.tick();
  }

  #advance(): void {
    this.#options.history.advance(unsettled(this.#options.queue));
  }

  #checkStall(): void {
    const reason = this.#reason();
    const since = this.#stalled?.since ?? Math.floor(this.#now() / 1000);
    this.#stalled = reason === undefined ? undefined : { reason, since };
  }

  #reason(): string | undefined {
    for (const problem of this.#options.problems) {
      const reason = problem();
      if (reason !== undefined) return reason;
    }
    return undefined;
  }
}
