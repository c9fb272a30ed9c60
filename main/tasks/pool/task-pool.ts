import type { Delivery, TaskProgress } from '../../../db/task-store.ts';
import type { Clock } from '../../../workers/shared/clock.ts';
import type { Histogram } from '../../../workers/shared/histogram.ts';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import type { Log } from '../../log/log.ts';

export type Outcome =
  /** `output` is JSON text. */
  | { ended: 'returned'; output: string }
  /** If `retryAfterMs` is undefined, the retry policy sets the delay. */
  | { ended: 'raised'; reason: string; permanent: boolean; retryAfterMs?: number }
  /** The task's thread died, or was ended at the time limit, while the task had it to itself. */
  | { ended: 'crashed'; reason: string }
  /** The attempt was not started, or ended for a reason unrelated to the task. It is not charged. */
  | { ended: 'released'; reason: string }
  | { ended: 'cancelled' };

export interface AttemptListener {
  onStart(): void;
  /** Called if the handler acknowledges its task while it runs. `run` resolves when the handler ends. */
  onAcknowledged(how: 'ack' | 'nack'): void;
  onProgress(progress: TaskProgress): void;
}

/** Runs the handlers of deliveries. */
export interface TaskPool {
  /** Number of threads. */
  readonly threads: number;
  /** Number of handlers at a time in a thread. */
  readonly overlap: number;
  /** Number of threads in which a handler runs. */
  readonly busy: number;
  /** Whether tasks can start. False while threads that do not start are being replaced. */
  readonly serving: boolean;
  /** Durations of attempts. */
  readonly durations: Histogram;
  /** Runs a delivery's handler as soon as a thread is free, in the order of the calls. Never rejects. */
  run(delivery: Delivery, listener: AttemptListener): Promise<Outcome>;
  /**
   * Cancels a delivery. If its handler has not started, the delivery ends as `released`, and `cancel` returns true.
   * Otherwise, aborts the handler's signal, and ends the handler's thread after the grace period.
   */
  cancel(delivery: Delivery): boolean;
  /** Ends all deliveries whose handlers have not started as `released`. */
  releaseWaiting(): void;
  /** Aborts the signals of all handlers, waits until they have ended or `deadline` resolves, and ends all threads. */
  stop(deadline: Promise<void>): Promise<void>;
}

export interface PoolParts {
  /** Actions of the handlers module. */
  actions: HandlersManifest;
  clock: Clock;
  log: Log;
}

export const STOPPED: Outcome = { ended: 'released', reason: 'the pool is stopped' };

/** A delivery in a pool, from the call of `run` to its outcome. */
export class Run {
  readonly delivery: Delivery;
  /** Number by which its thread knows it. */
  readonly number: number;
  readonly outcome: Promise<Outcome>;
  /** Whether no other task may be in its thread, so that the end of the thread is known to be its fault. */
  isAlone: boolean;
  isCancelled = false;
  /** Whether the thread has reported the start. */
  isRunning = false;
  /** Whether the handler's signal was aborted. */
  isAborted = false;
  hasTimedOut = false;
  /** When the handler's signal is aborted, or the thread is ended. Infinity before the start. */
  deadline = Number.POSITIVE_INFINITY;
  #acknowledged: 'ack' | 'nack' | undefined;
  #progress: TaskProgress | undefined;
  #hasStarted = false;
  #hasEnded = false;
  readonly #listener: AttemptListener;
  readonly #resolve: (outcome: Outcome) => void;

  constructor(number: number, delivery: Delivery, listener: AttemptListener, isAlone = false) {
    this.number = number;
    this.delivery = delivery;
    this.isAlone = isAlone;
    this.#listener = listener;
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.outcome = promise;
    this.#resolve = resolve;
  }

  /** Whether the task can run again without the caller noticing, because nothing is decided yet. */
  get mayRunAgain(): boolean {
    return !this.isCancelled && this.#acknowledged === undefined;
  }

  /** Called when the run is given to a thread, perhaps not for the first time. */
  begin(): void {
    this.isRunning = false;
    this.isAborted = false;
    this.hasTimedOut = false;
    this.deadline = Number.POSITIVE_INFINITY;
  }

  /** Called when the handler starts, perhaps not for the first time. */
  start(): void {
    if (this.#hasStarted || this.#hasEnded) return;
    this.#hasStarted = true;
    this.#listener.onStart();
  }

  acknowledge(how: 'ack' | 'nack'): void {
    if (this.#acknowledged !== undefined || this.#hasEnded) return;
    this.start();
    this.#acknowledged = how;
    // A cancelled task must not be retried.
    if (how === 'ack' || !this.isCancelled) this.#listener.onAcknowledged(how);
  }

  /** Ignores progress that was reported before. */
  report(progress: TaskProgress): void {
    const { fraction, note } = this.#progress ?? {};
    if (this.#hasEnded || (progress.fraction === fraction && progress.note === note)) return;
    this.#progress = progress;
    this.start();
    this.#listener.onProgress(progress);
  }

  /** A cancelled task that was not completed ends as `cancelled`. */
  end(outcome: Outcome): void {
    const isDone = this.#acknowledged === 'ack' || (outcome.ended === 'returned' && this.#acknowledged === undefined);
    this.#hasEnded = true;
    this.#resolve(this.isCancelled && !isDone ? { ended: 'cancelled' } : outcome);
  }
}
