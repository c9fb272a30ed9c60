import type { Acknowledgement, TaskDelivery, TaskOutcome } from '../../../workers/messages.ts';
import { DURATION_BOUNDS, Histogram } from '../../metrics/histogram.ts';
import { Interrupted, TaskThreads, type TaskThreadsOptions } from './task-threads.ts';
import { type LastSeen, TaskTimeout } from './task-timeout.ts';

export type BatchOutcome =
  | TaskOutcome
  /** The thread died, or was terminated after the time limit, because of this task. */
  | { ended: 'crashed'; reason: string }
  /** The thread died or was stopped. This task is not the cause, or, if `suspect` is true, only one of the possible causes. */
  | { ended: 'interrupted'; reason: string; suspect: boolean };

export interface BatchTask extends Pick<TaskDelivery, 'body' | 'sequence'> {
  /** Called when the handler settles its delivery while it is still running. */
  onSettled(acknowledgement: Acknowledgement): void;
}

export interface RunningBatch {
  /** Outcomes of the tasks that were not reclaimed, in the order of the batch. Never rejects. */
  outcomes: Promise<BatchOutcome[]>;
  /** Returns how many tasks of the batch the thread has started. */
  started(): number;
  /** Removes the tasks that the thread has not started from the batch. @returns the number of tasks that remain */
  reclaim(): number;
}

export interface BatchRunnerOptions extends Omit<TaskThreadsOptions, 'records' | 'onSettled'> {
  /** Maximum duration of an attempt, after which its thread is terminated. */
  timeoutMs: number;
}

/**
 * Runs batches, each in a thread of its own. The tasks of a batch share one message to the thread, one reply, and the
 * transaction that stores their rows. If a thread dies, the runner determines which task is to blame.
 */
export class BatchRunner {
  readonly threads: number;
  /** One histogram per slot with the durations of attempts, without the time to store rows. */
  readonly durations: readonly Histogram[];
  readonly #timeoutMs: number;
  readonly #timeout: TaskTimeout;
  /** For each slot, the number of tasks that were started in its batch. */
  readonly #startedTasks: Int32Array;
  /** For each delivery in a thread, by its id, the function to call if the handler settles it while still running. */
  readonly #listeners = new Map<number, BatchTask['onSettled']>();
  readonly #taskThreads: TaskThreads;
  readonly #freeSlots: number[];
  #deliveries = 0;

  private constructor(options: BatchRunnerOptions) {
    const { threads, timeoutMs } = options;
    const slots = Array.from({ length: threads }, (_, slot) => slot);
    const startedTasks = new SharedArrayBuffer(threads * Int32Array.BYTES_PER_ELEMENT);
    const cells = new SharedArrayBuffer(threads * Histogram.bytes(DURATION_BOUNDS));
    this.threads = threads;
    this.durations = slots.map((slot) => new Histogram(DURATION_BOUNDS, cells, slot));
    this.#timeoutMs = timeoutMs;
    this.#timeout = new TaskTimeout(threads, timeoutMs, (threadId) => this.#taskThreads.terminate(threadId));
    this.#startedTasks = new Int32Array(startedTasks);
    this.#freeSlots = slots;
    this.#taskThreads = new TaskThreads({
      ...options,
      records: { attempts: this.#timeout.attempts, startedTasks, durations: { bounds: DURATION_BOUNDS, cells } },
      onSettled: ({ delivery, settled }) => this.#listeners.get(delivery)?.(settled),
    });
  }

  /** Starts the threads, and self-tests each. @throws {Error} if a thread cannot load its file or does not answer */
  static async start(options: BatchRunnerOptions): Promise<BatchRunner> {
    const runner = new BatchRunner(options);
    await runner.#taskThreads.start();
    return runner;
  }

  /** Whether all threads are running. */
  get serving(): boolean {
    return this.#taskThreads.serving;
  }

  /** Runs a batch in a free thread. @throws {Error} if no thread is free */
  run(tasks: readonly BatchTask[]): RunningBatch {
    const slot = this.#freeSlots.pop();
    if (slot === undefined) throw new Error('no thread is free');
    Atomics.store(this.#startedTasks, slot, 0);
    let kept = tasks.length;
    let isOver = false;
    const outcomes = this.#runIn(slot, tasks, () => kept).finally(() => {
      isOver = true;
      this.#freeSlots.push(slot);
    });
    return {
      outcomes,
      started: () => (isOver ? kept : Math.min(kept, Atomics.load(this.#startedTasks, slot))),
      reclaim: () => {
        if (!isOver) kept = Math.min(kept, Atomics.exchange(this.#startedTasks, slot, RECLAIMED));
        return kept;
      },
    };
  }

  /** Terminates all threads; their tasks end as `interrupted`. May be called again. */
  async destroy(): Promise<void> {
    await this.#taskThreads.destroy();
  }

  /** Runs a batch and returns its outcomes. @param kept returns the number of tasks that were not reclaimed */
  async #runIn(slot: number, tasks: readonly BatchTask[], kept: () => number): Promise<BatchOutcome[]> {
    const first = this.#deliveries + 1;
    const deliveries = tasks.map(({ body, sequence, onSettled }) => {
      this.#listeners.set(++this.#deliveries, onSettled);
      return { delivery: this.#deliveries, body, sequence };
    });
    const ended = this.#timeout.watch(slot, tasks.length);
    try {
      const outcomes = await this.#taskThreads.run({ tasks: deliveries, slot });
      // An outcome is missing if a terminated thread of an earlier batch claimed a task of this batch just before its end.
      if (outcomes.length !== kept()) throw new Interrupted('a task of the batch was claimed by another thread');
      return outcomes;
    } catch (error) {
      return this.#blame(error as Error, ended(), tasks.length, kept());
    } finally {
      ended();
      for (let delivery = first; delivery < first + tasks.length; delivery++) this.#listeners.delete(delivery);
    }
  }

  /** Returns the outcomes after a thread's death: `crashed` for the running task, or all `suspect` if rows were being stored. */
  #blame(error: Error, last: LastSeen, size: number, kept: number): BatchOutcome[] {
    const isBlameless = error instanceof Interrupted || last.index === undefined;
    const reason = last.timedOut ? `took longer than ${this.#timeoutMs} ms` : error.message;
    const isStoring = last.index === size;
    return Array.from({ length: kept }, (_, index) => {
      if (!isBlameless && (index === last.index || (isStoring && kept === 1))) return { ended: 'crashed', reason };
      return { ended: 'interrupted', reason, suspect: !isBlameless && isStoring };
    });
  }
}

/** Value of `#startedTasks` that marks the remaining tasks as reclaimed: above any batch length, and far below an overflow. */
const RECLAIMED = 2 ** 30;
