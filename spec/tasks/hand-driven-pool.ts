import type { PoolOutcome, PoolRun, PoolTask } from '../../main/tasks/worker-pool.ts';
import type { Settlement } from '../../workers/messages.ts';

/** A task that a {@link HandDrivenPool} was given. */
export interface Run {
  body: string;
  /** What the handler says before it ends. */
  settle(settlement: Settlement): void;
  end(outcome: PoolOutcome): void;
}

/** Stands for a pool of threads; a spec says when and how each task ends. */
export class HandDrivenPool {
  readonly threads: number;
  readonly maxBatch: number;
  /** How many tasks came together, each time. */
  readonly batches: number[] = [];
  /** All tasks it was given, in order. */
  readonly runs: Run[] = [];
  destroyed = false;
  #open = new Set<Run>();
  #wake = Promise.withResolvers<void>();

  constructor(threads: number, maxBatch = 1) {
    this.threads = threads;
    this.maxBatch = maxBatch;
  }

  /** How many tasks it works on. */
  get busy(): number {
    return this.#open.size;
  }

  /** Bodies of all tasks it was given, in order. */
  get bodies(): string[] {
    return this.runs.map(({ body }) => body);
  }

  /** Begins all of a batch at once, so that nothing is left to be taken back. */
  run(tasks: readonly PoolTask[]): PoolRun {
    this.batches.push(tasks.length);
    return { outcomes: Promise.all(tasks.map((task) => this.#runOne(task))), recall: () => tasks.length };
  }

  /** The `count`th task it is given, from 1. */
  async started(count: number): Promise<Run> {
    for (;;) {
      const run = this.runs[count - 1];
      if (run !== undefined) return run;
      await this.#wake.promise;
    }
  }

  async destroy(): Promise<void> {
    this.destroyed = true;
    for (const run of this.#open) run.end({ ended: 'interrupted', reason: 'thread stopped', suspect: false });
  }

  async #runOne({ body, onSettled: settle }: PoolTask): Promise<PoolOutcome> {
    const ended = Promise.withResolvers<PoolOutcome>();
    const run = { body, settle, end: ended.resolve };
    this.runs.push(run);
    this.#open.add(run);
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
    try {
      return await ended.promise;
    } finally {
      this.#open.delete(run);
    }
  }
}
