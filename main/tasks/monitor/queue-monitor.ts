import type { Histogram } from '../../../workers/histogram.ts';
import { type Dispatcher, unsettled } from '../dispatch/dispatcher.ts';
import type { WorkerPool } from '../pool/worker-pool.ts';
import { deadLetterBounds } from '../queue/dead-letters.ts';
import type { Queue, QueueBounds } from '../queue/queue.ts';
import type { HistoryAnswer, QueueHistory } from './queue-history.ts';
import { type Percentiles, RecentDurations } from './recent-durations.ts';

/** Limits of the queue, from the settings. */
export interface QueueLimits {
  /** Maximum number of messages that are waiting, delayed or in flight. */
  length: number;
  /** Maximum total size of the messages that are waiting, delayed or in flight, in bytes. */
  bytes: number;
  /** Maximum number of dead letters. */
  deadLetters: number;
  /** Maximum number of deliveries in flight on a node. */
  prefetch: number;
}

/** Reason why no task can be processed, and when the problem was first seen, in Unix seconds. */
export interface Stall {
  reason: string;
  since: number;
}

/** State of the queue, in addition to its counts. */
export interface QueueStatus {
  limits: QueueLimits;
  /** Age of the oldest unsettled message, in seconds. Undefined if there is none. */
  oldestAge: number | undefined;
  threads: { busy: number; total: number };
  paused: boolean;
  stalled: Stall | undefined;
  /**
   * Percentiles of the time from acceptance to the first attempt, in seconds, over the last five minutes. Undefined if
   * no attempt ended in that time.
   */
  waiting: Percentiles | undefined;
  /**
   * Percentiles of the duration of attempts, in seconds, over the last five minutes. Undefined if no attempt ended in
   * that time.
   */
  running: Percentiles | undefined;
}

export interface QueueMonitorOptions {
  /** History to which the queue's events are recorded. */
  history: QueueHistory;
  queue: Pick<Queue, 'counts' | 'oldest' | 'paused'>;
  pool: Pick<WorkerPool, 'threads' | 'busy' | 'durations'>;
  dispatcher: { metrics: Pick<Dispatcher['metrics'], 'waits'> };
  bounds: Pick<QueueBounds, 'maxLength' | 'maxBytes'>;
  /** Maximum number of deliveries in flight on this node. */
  prefetch: number;
  /**
   * Functions that return a reason why no task can be processed, or undefined. They are called once per second. The
   * first reason is reported.
   */
  problems: readonly (() => string | undefined)[];
  /** Wall clock in milliseconds since the epoch. The default is `Date.now`. */
  now?: () => number;
}

/** Reports the state and the history of the queue. Once per second, updates the history and checks for a stall. */
export class QueueMonitor {
  readonly #options: QueueMonitorOptions;
  readonly #now: () => number;
  readonly #waiting: RecentDurations;
  readonly #running: RecentDurations;
  /** Result of the last check, which is at most a second old. */
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

  /** Returns the complete seconds of the history after `since`. */
  history(since?: number): HistoryAnswer {
    this.#advance();
    return this.#options.history.read(since);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Schedules the next tick at the start of the next second. */
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

  /** Checks whether tasks can be processed. If a stall continues for another reason, keeps its start time. */
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
