import type { Acknowledgement, EarlySettlement, TaskDelivery, TaskOutcome } from '../../../workers/messages.ts';
import { DURATION_BOUNDS, Histogram } from '../../metrics/histogram.ts';
import { Interrupted, TaskThreads, type TaskThreadsOptions } from './task-threads.ts';
import { TimeLimit } from './time-limit.ts';

/** Outcome of a task of a batch. */
export type BatchOutcome =
  | TaskOutcome
  /** The task killed its thread. */
  | { ended: 'crashed'; reason: string }
  /** The thread died or was stopped. The cause is not this task, or, for a `suspect`, some task of its batch. */
  | { ended: 'interrupted'; reason: string; suspect: boolean };

export interface BatchTask extends Pick<TaskDelivery, 'body' | 'arrival'> {
  /** Called when the handler settles its delivery before it ends. */
  onSettled(acknowledgement: Acknowledgement): void;
}

/** A running batch. */
export interface BatchRun {
  /** Outcomes, in order, of the tasks that were not reclaimed. Never rejects. */
  outcomes: Promise<BatchOutcome[]>;
  /** Returns the number of tasks that the thread has started, in order. */
  started(): number;
  /** Reclaims the tasks that the thread has not started. @returns the number of tasks that it keeps */
  reclaim(): number;
}

export interface BatchRunnerOptions extends Omit<TaskThreadsOptions, 'notes' | 'onSettled'> {
  /** Time limit of a task, after which its thread is terminated. */
  timeoutMs: number;
}

interface Parts {
  timeLimit: TimeLimit;
  begun: SharedArrayBuffer;
  runs: SharedArrayBuffer;
  listeners: Map<number, BatchTask['onSettled']>;
  taskThreads: TaskThreads;
}

/**
 * Runs batches, each in a thread of its own. The tasks of a batch share one message to the thread, one reply, and the
 * transaction that stores their rows. If a thread dies, the runner determines which task is to blame.
 */
export class BatchRunner {
  readonly threads: number;
  /** Durations of attempts by thread, without the time to store rows. */
  readonly runs: readonly Histogram[];
  readonly #timeoutMs: number;
  readonly #timeLimit: TimeLimit;
  /** Number of started tasks of the batch in each slot. */
  readonly #begun: Int32Array;
  readonly #listeners: Parts['listeners'];
  readonly #taskThreads: TaskThreads;
  readonly #freeSlots: number[];
  #deliveries = 0;

  private constructor({ threads, timeoutMs }: BatchRunnerOptions, parts: Parts) {
    this.threads = threads;
    this.#timeoutMs = timeoutMs;
    this.#timeLimit = parts.timeLimit;
    this.#begun = new Int32Array(parts.begun);
    this.runs = Array.from({ length: threads }, (_, slot) => new Histogram(DURATION_BOUNDS, parts.runs, slot));
    this.#listeners = parts.listeners;
    this.#taskThreads = parts.taskThreads;
    this.#freeSlots = Array.from({ length: threads }, (_, slot) => slot);
  }

  /**
   * Starts the threads, and self-tests each.
   *
   * @throws {Error} if a thread cannot load its file or does not answer
   */
  static async start(options: BatchRunnerOptions): Promise<BatchRunner> {
    const listeners: Parts['listeners'] = new Map();
    const onSettled = ({ delivery, settled }: EarlySettlement) => listeners.get(delivery)?.(settled);
    let taskThreads: TaskThreads | undefined;
    const onTimeout = (threadId: number) => taskThreads?.terminate(threadId);
    const timeLimit = new TimeLimit({ slots: options.threads, timeoutMs: options.timeoutMs, onTimeout });
    const begun = new SharedArrayBuffer(options.threads * Int32Array.BYTES_PER_ELEMENT);
    const runs = new SharedArrayBuffer(options.threads * Histogram.bytes(DURATION_BOUNDS));
    const notes = { attempts: timeLimit.attempts, begun, runs: { bounds: DURATION_BOUNDS, cells: runs } };
    taskThreads = await TaskThreads.start({ ...options, notes, onSettled });
    return new BatchRunner(options, { timeLimit, begun, runs, listeners, taskThreads });
  }

  /** Whether all threads are running. */
  get serving(): boolean {
    return this.#taskThreads.serving;
  }

  /** Runs a batch in a free thread. @throws {Error} if no thread is free */
  run(tasks: readonly BatchTask[]): BatchRun {
    const slot = this.#freeSlots.pop();
    if (slot === undefined) throw new Error('no thread is free');
    Atomics.store(this.#begun, slot, 0);
    let kept = tasks.length;
    let isOver = false;
    const outcomes = this.#runIn(slot, tasks, () => kept).finally(() => {
      isOver = true;
      this.#freeSlots.push(slot);
    });
    return {
      outcomes,
      started: () => (isOver ? kept : Math.min(kept, Atomics.load(this.#begun, slot))),
      reclaim: () => {
        if (!isOver) kept = Math.min(kept, Atomics.exchange(this.#begun, slot, RECLAIMED));
        return kept;
      },
    };
  }

  /** Terminates all threads; their tasks end as `interrupted`. May be called again. */
  async destroy(): Promise<void> {
    await this.#taskThreads.destroy();
  }

  /** @param kept returns the number of tasks that were not reclaimed */
  async #runIn(slot: number, tasks: readonly BatchTask[], kept: () => number): Promise<BatchOutcome[]> {
    const first = this.#deliveries + 1;
    const deliveries = tasks.map(({ body, arrival, onSettled }) => {
      this.#listeners.set(++this.#deliveries, onSettled);
      return { delivery: this.#deliveries, body, arrival };
    });
    const ended = this.#timeLimit.watch(slot, tasks.length);
    try {
      const outcomes = await this.#taskThreads.run({ tasks: deliveries, slot });
      // A terminated thread may have claimed a task of this batch just before its end.
      if (outcomes.length !== kept()) throw new Interrupted('a task of the batch was claimed by another thread');
      return outcomes;
    } catch (error) {
      const { index, timedOut } = ended();
      return this.#blame(kept(), error as Error, { index: index === tasks.length ? 'storing' : index, timedOut });
    } finally {
      ended();
      for (let delivery = first; delivery < first + tasks.length; delivery++) this.#listeners.delete(delivery);
    }
  }

  /** Blames the task that was running when the thread died. While rows are stored, every task of the batch may be the cause. */
  #blame(
    count: number,
    error: Error,
    at: { index: number | 'storing' | undefined; timedOut: boolean },
  ): BatchOutcome[] {
    const isBlameless = error instanceof Interrupted || at.index === undefined;
    const reason = at.timedOut ? `took longer than ${this.#timeoutMs} ms` : error.message;
    const isStoring = at.index === 'storing';
    return Array.from({ length: count }, (_, index) => {
      if (!isBlameless && (index === at.index || (isStoring && count === 1))) return { ended: 'crashed', reason };
      return { ended: 'interrupted', reason, suspect: !isBlameless && isStoring };
    });
  }
}

/** Counter value that marks the remaining tasks as reclaimed: above any batch length, and far below an overflow. */
const RECLAIMED = 2 ** 30;
