import type { Outcome } from '../../../main/tasks/pool/worker-pool.ts';
import type { Delivery } from '../../../main/tasks/queue/queue.ts';

/** A run of a {@link HandDrivenPool}. */
export interface HandDrivenRun {
  delivery: Delivery;
  isStarted: boolean;
  end(outcome: Outcome): void;
}

/** Replacement of the worker pool. A spec ends each run with an outcome of its choice. */
export class HandDrivenPool {
  /** All runs in order. */
  readonly runs: HandDrivenRun[] = [];
  /** Deliveries that were cancelled, in order. */
  readonly cancelled: Delivery[] = [];
  isStopped = false;
  readonly #workers: number;
  readonly #open = new Set<HandDrivenRun>();
  #changed = Promise.withResolvers<void>();

  /** @param workers limit of concurrent runs; further runs wait */
  constructor(workers = Number.POSITIVE_INFINITY) {
    this.#workers = workers;
  }

  /** Number of runs that have started and not ended. */
  get busy(): number {
    return [...this.#open].filter(({ isStarted }) => isStarted).length;
  }

  /** Bodies of all messages run so far, in order. */
  get bodies(): string[] {
    return this.runs.map(({ delivery }) => delivery.message.body);
  }

  async run(delivery: Delivery, onStart: () => Promise<void>): Promise<Outcome> {
    const ended = Promise.withResolvers<Outcome>();
    const run = { delivery, isStarted: this.busy < this.#workers && !this.isStopped, end: ended.resolve };
    this.runs.push(run);
    this.#open.add(run);
    this.#change();
    if (run.isStarted) await onStart();
    if (this.isStopped) return stopped;
    const outcome = await ended.promise;
    this.#open.delete(run);
    this.#change();
    return outcome;
  }

  /** Waits for the `count`th run, counted from 1. */
  async given(count: number): Promise<HandDrivenRun> {
    for (;;) {
      const run = this.runs[count - 1];
      if (run !== undefined) return run;
      await this.#changed.promise;
    }
  }

  /** Withdraws a run that has not started. Notes the cancellation of a started one. */
  cancel(delivery: Delivery): boolean {
    this.cancelled.push(delivery);
    const run = [...this.#open].find((open) => open.delivery === delivery);
    if (run === undefined || run.isStarted) return false;
    run.end(stopped);
    return true;
  }

  releaseWaiting(): void {
    for (const run of this.#open) if (!run.isStarted) run.end(stopped);
  }

  async stop(deadline: Promise<void>): Promise<void> {
    this.isStopped = true;
    this.releaseWaiting();
    let isOver = false;
    void deadline.then(() => {
      isOver = true;
      this.#change();
    });
    while (this.busy > 0 && !isOver) await this.#changed.promise;
    for (const run of this.#open) run.end(stopped);
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

const stopped: Outcome = { ended: 'interrupted', reason: 'stopped' };
