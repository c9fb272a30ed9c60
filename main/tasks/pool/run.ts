import type { Delivery, TaskProgress } from '../../../db/task-store.ts';
import type { Acknowledgement, ActionSettings, HandlerOutcome } from '../../../workers/tasks/messages.ts';

export type Outcome =
  | HandlerOutcome
  /** The task's thread died, or was ended at the time limit, while the task had it to itself. */
  | { ended: 'crashed'; reason: string }
  | { ended: 'cancelled' };

export interface AttemptListener {
  onStart(): void;
  /** Called if the handler acknowledges its task while it runs. `run` resolves when the handler ends. */
  onAcknowledged(how: Acknowledgement): void;
  onProgress(progress: TaskProgress): void;
}

export const STOPPED: Outcome = { ended: 'released', reason: 'the pool is stopped' };

/** A delivery in a pool, from the call of `run` to its outcome. */
export class Run {
  readonly delivery: Delivery;
  /** Number by which its thread knows it. */
  readonly number: number;
  readonly settings: ActionSettings | undefined;
  readonly outcome: Promise<Outcome>;
  /** Whether no other task may be in its thread, so that the end of the thread is known to be its fault. */
  isAlone: boolean;
  isCancelled = false;
  /** Whether the thread has reported the start. */
  isRunning = false;
  isAborted = false;
  hasTimedOut = false;
  /** When the handler's signal is aborted, or the thread is ended. Infinity before the start. */
  deadline = Number.POSITIVE_INFINITY;
  #acknowledged: Acknowledgement | undefined;
  #progress: TaskProgress | undefined;
  #hasStarted = false;
  #hasEnded = false;
  readonly #listener: AttemptListener;
  readonly #resolve: (outcome: Outcome) => void;

  /** @param settings those of the action in the handlers module. Undefined for a built-in action */
  constructor(number: number, delivery: Delivery, listener: AttemptListener, settings?: ActionSettings) {
    this.number = number;
    this.delivery = delivery;
    this.settings = settings;
    this.isAlone = delivery.crashes > 0 || delivery.isSuspect || settings?.overlap === false;
    this.#listener = listener;
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.outcome = promise;
    this.#resolve = resolve;
  }

  /** Whether the task can run again without the caller noticing, because nothing is decided yet. */
  get mayRunAgain(): boolean {
    return !this.isCancelled && this.#acknowledged === undefined;
  }

  begin(): void {
    this.isRunning = false;
    this.isAborted = false;
    this.hasTimedOut = false;
    this.deadline = Number.POSITIVE_INFINITY;
  }

  start(): void {
    if (this.#hasStarted || this.#hasEnded) return;
    this.#hasStarted = true;
    this.#listener.onStart();
  }

  acknowledge(how: Acknowledgement): void {
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
