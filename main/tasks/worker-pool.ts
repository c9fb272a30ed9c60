import type { EarlySettlement, Settlement, TaskDelivery, TaskOutcome } from '../../workers/messages.ts';
import { Distribution, DURATIONS } from '../figures/distribution.ts';
import { Interrupted, TaskThreads, type TaskThreadsOptions } from './task-threads.ts';
import { TimeLimit } from './time-limit.ts';

/** How a delivery ended, seen from the main thread. */
export type PoolOutcome =
  | TaskOutcome
  /** The thread died of it. */
  | { ended: 'crashed'; reason: string }
  /** It was not worked off, through no fault of its own; a `suspect` may be at fault, with others. */
  | { ended: 'interrupted'; reason: string; suspect: boolean };

/** A delivery to work off. */
export interface PoolTask extends Pick<TaskDelivery, 'body' | 'arrival'> {
  /** Told when the handler settles its delivery before it ends. */
  onSettled: (settlement: Settlement) => void;
}

/** Deliveries that were given to a thread. */
export interface PoolRun {
  /** Fulfilled when all have ended that were not taken back, with their outcomes in order. Never rejects. */
  outcomes: Promise<PoolOutcome[]>;
  /** Takes back those that the thread has not begun. @returns how many it keeps, the first ones */
  recall(): number;
}

export interface WorkerPoolOptions extends Omit<TaskThreadsOptions, 'notes' | 'onSettled'> {
  /** Deliveries that a thread is given at once, at most. */
  maxBatch: number;
  /** How long a task may take until its thread is ended. */
  timeoutMs: number;
}

/**
 * Works deliveries off in a fixed number of threads. A thread works on one at a time; those that it is given together
 * share a message there and back, and the transaction of their rows.
 */
export class WorkerPool {
  readonly threads: number;
  readonly maxBatch: number;
  /** How long handlers had an attempt; storing the rows is not in it. Add them up. */
  readonly runs: readonly Distribution[];
  readonly #timeoutMs: number;
  readonly #timeLimit: TimeLimit;
  /** A cell a slot: how many tasks of its batch a thread has begun. */
  readonly #begun: Int32Array;
  readonly #listeners: Map<number, PoolTask['onSettled']>;
  readonly #taskThreads: TaskThreads;
  readonly #freeSlots: number[];
  readonly #queue: Array<(slot: number) => void> = [];
  #deliveries = 0;

  private constructor(
    { threads, maxBatch, timeoutMs }: WorkerPoolOptions,
    parts: {
      timeLimit: TimeLimit;
      begun: SharedArrayBuffer;
      runs: SharedArrayBuffer;
      listeners: Map<number, PoolTask['onSettled']>;
      taskThreads: TaskThreads;
    },
  ) {
    this.threads = threads;
    this.maxBatch = maxBatch;
    this.#timeoutMs = timeoutMs;
    this.#timeLimit = parts.timeLimit;
    this.#begun = new Int32Array(parts.begun);
    this.runs = Array.from({ length: threads }, (_, slot) => new Distribution(DURATIONS, parts.runs, slot));
    this.#listeners = parts.listeners;
    this.#taskThreads = parts.taskThreads;
    this.#freeSlots = Array.from({ length: threads }, (_, slot) => slot);
  }

  /**
   * Starts the threads and hears from each.
   *
   * @throws {Error} when a thread cannot load its file or does not answer
   */
  static async start(options: WorkerPoolOptions): Promise<WorkerPool> {
    const listeners = new Map<number, PoolTask['onSettled']>();
    const onSettled = ({ delivery, settled }: EarlySettlement) => listeners.get(delivery)?.(settled);
    let taskThreads: TaskThreads | undefined;
    const onTimeout = (threadId: number) => taskThreads?.terminate(threadId);
    const timeLimit = new TimeLimit({ slots: options.threads, timeoutMs: options.timeoutMs, onTimeout });
    const begun = new SharedArrayBuffer(options.threads * Int32Array.BYTES_PER_ELEMENT);
    const runs = new SharedArrayBuffer(options.threads * Distribution.bytes(DURATIONS));
    const notes = { attempts: timeLimit.attempts, begun, runs: { bounds: DURATIONS, cells: runs } };
    taskThreads = await TaskThreads.start({ ...options, notes, onSettled });
    return new WorkerPool(options, { timeLimit, begun, runs, listeners, taskThreads });
  }

  /** Whether all threads are there. */
  get serving(): boolean {
    return this.#taskThreads.serving;
  }

  /** Works deliveries off, one after the other, when a thread is free. */
  run(tasks: readonly PoolTask[]): PoolRun {
    let kept = tasks.length;
    let slot: number | undefined;
    const work = async () => {
      slot = this.#freeSlots.pop() ?? (await new Promise<number>((resolve) => this.#queue.push(resolve)));
      Atomics.store(this.#begun, slot, 0);
      const outcomes = await this.#runIn(slot, tasks, () => kept);
      const next = this.#queue.shift();
      if (next === undefined) this.#freeSlots.push(slot);
      else next(slot);
      slot = undefined;
      return outcomes;
    };
    return {
      outcomes: work(),
      recall: () => {
        if (slot !== undefined) kept = Math.min(kept, Atomics.exchange(this.#begun, slot, FAR_AHEAD));
        return kept;
      },
    };
  }

  /** Ends all threads at once; what they work on ends as `interrupted`. Calling it again does nothing. */
  async destroy(): Promise<void> {
    await this.#taskThreads.destroy();
  }

  /** @param kept how many of them were not taken back */
  async #runIn(slot: number, tasks: readonly PoolTask[], kept: () => number): Promise<PoolOutcome[]> {
    const first = this.#deliveries + 1;
    const deliveries = tasks.map(({ body, arrival, onSettled }) => {
      this.#listeners.set(++this.#deliveries, onSettled);
      return { delivery: this.#deliveries, body, arrival };
    });
    const ended = this.#timeLimit.watch(slot, tasks.length);
    try {
      const outcomes = await this.#taskThreads.run({ tasks: deliveries, slot });
      // A thread that was ended may have claimed a task of this batch in its last moment.
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

  /** Whose fault it was that a thread died: the task's that it was at. While it stored the rows it was at all of them. */
  #blame(count: number, error: Error, at: { index: number | 'storing' | undefined; timedOut: boolean }): PoolOutcome[] {
    const guiltless = error instanceof Interrupted || at.index === undefined;
    const reason = at.timedOut ? `took longer than ${this.#timeoutMs} ms` : error.message;
    const storing = at.index === 'storing';
    return Array.from({ length: count }, (_, each) => {
      if (!guiltless && (each === at.index || (storing && count === 1))) return { ended: 'crashed', reason };
      return { ended: 'interrupted', reason, suspect: !guiltless && storing };
    });
  }
}

/** Further than any batch is long, and further from where a cell overflows than any batch counts. */
const FAR_AHEAD = 2 ** 30;
