import type { Delivery } from '../../../db/task-store.ts';
import type { AttemptListener, Outcome } from '../../../main/tasks/pool/run.ts';
import { Condition } from '../../support/until.ts';

/** A run of a {@link HandDrivenPool}. */
interface HandDrivenRun extends AttemptListener {
  delivery: Delivery;
  isStarted: boolean;
  end(outcome: Outcome): void;
}

/** Replacement of the task pool. A spec ends each run with an outcome of its choice. */
export class HandDrivenPool {
  /** All runs in order. */
  readonly runs: HandDrivenRun[] = [];
  isStopped = false;
  readonly #threads: number;
  readonly #open = new Set<HandDrivenRun>();
  readonly #runs = new Condition();

  /** @param threads limit of concurrent runs; further runs wait */
  constructor(threads = Number.POSITIVE_INFINITY) {
    this.#threads = threads;
  }

  /** Number of runs that have started and not ended. */
  get busy(): number {
    return [...this.#open].filter(({ isStarted }) => isStarted).length;
  }

  /** Ids of all tasks run so far, in order. */
  get ids(): string {
    return this.runs.map(({ delivery }) => delivery.id).join('');
  }

  async run(delivery: Delivery, listener: AttemptListener): Promise<Outcome> {
    const ended = Promise.withResolvers<Outcome>();
    const isStarted = this.busy < this.#threads && !this.isStopped;
    const run = { delivery, ...listener, isStarted, end: ended.resolve };
    this.runs.push(run);
    this.#open.add(run);
    if (isStarted) listener.onStart();
    this.#runs.changed();
    if (this.isStopped) ended.resolve(released);
    const outcome = await ended.promise;
    this.#open.delete(run);
    this.#runs.changed();
    return outcome;
  }

  /** Waits for the `count`th run, counted from 1. */
  given(count: number): Promise<HandDrivenRun> {
    return this.#runs.found(() => this.runs[count - 1]);
  }

  cancel(delivery: Delivery): boolean {
    const run = [...this.#open].find((each) => each.delivery === delivery);
    if (run === undefined) return false;
    run.end(run.isStarted ? cancelled : released);
    return !run.isStarted;
  }

  releaseWaiting(): void {
    for (const run of this.#open) if (!run.isStarted) run.end(released);
  }

  async stop(deadline: Promise<void>): Promise<void> {
    this.isStopped = true;
    this.releaseWaiting();
    let isOver = false;
    void deadline.then(() => {
      isOver = true;
      this.#runs.changed();
    });
    await this.#runs.found(() => this.busy === 0 || isOver || undefined);
    for (const run of this.#open) run.end(released);
  }
}

export const released: Outcome = { ended: 'released', reason: 'stopped' };
export const cancelled: Outcome = { ended: 'cancelled' };
export const returned: Outcome = { ended: 'returned', output: '1' };
export const raised: Outcome = { ended: 'raised', reason: 'it failed', permanent: false };
export const raisedForGood: Outcome = { ended: 'raised', reason: 'bad data', permanent: true };
export const crashed: Outcome = { ended: 'crashed', reason: 'thread died' };
