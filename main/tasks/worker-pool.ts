import type { EarlySettlement, Settlement, TaskDelivery, TaskOutcome } from '../../workers/messages.ts';
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

export interface WorkerPoolOptions extends Omit<TaskThreadsOptions, 'attempts' | 'onSettled'> {
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
  readonly #timeoutMs: number;
  readonly #timeLimit: TimeLimit;
  readonly #listeners: Map<number, PoolTask['onSettled']>;
  readonly #taskThreads: TaskThreads;
  readonly #freeSlots: number[];
  readonly #queue: Array<(slot: number) => void> = [];
  #deliveries = 0;

  private constructor(
    { threads, maxBatch, timeoutMs }: WorkerPoolOptions,
    parts: { timeLimit: TimeLimit; listeners: Map<number, PoolTask['onSettled']>; taskThreads: TaskThreads },
  ) {
    this.threads = threads;
    this.maxBatch = maxBatch;
    this.#timeoutMs = timeoutMs;
    this.#timeLimit = parts.timeLimit;
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
    taskThreads = await TaskThreads.start({ ...options, attempts: timeLimit.attempts, onSettled });
    return new WorkerPool(options, { timeLimit, listeners, taskThreads });
  }

  /** Works deliveries off, one after the other, when a thread is free. Never rejects; the outcomes are in their order. */
  async run(tasks: readonly PoolTask[]): Promise<PoolOutcome[]> {
    const slot = this.#freeSlots.pop() ?? (await new Promise<number>((resolve) => this.#queue.push(resolve)));
    const first = this.#deliveries + 1;
    const deliveries = tasks.map(({ body, arrival, onSettled }) => {
      this.#listeners.set(++this.#deliveries, onSettled);
      return { delivery: this.#deliveries, body, arrival };
    });
    const ended = this.#timeLimit.watch(slot);
    try {
      return await this.#taskThreads.run({ tasks: deliveries, slot });
    } catch (error) {
      return this.#blame(tasks.length, error as Error, ended());
    } finally {
      ended();
      for (let delivery = first; delivery < first + tasks.length; delivery++) this.#listeners.delete(delivery);
      const next = this.#queue.shift();
      if (next === undefined) this.#freeSlots.push(slot);
      else next(slot);
    }
  }

  /** Ends all threads at once; what they work on ends as `interrupted`. Calling it again does nothing. */
  async destroy(): Promise<void> {
    await this.#taskThreads.destroy();
  }

  /** Whose fault it was that a thread died: the task's that it was at. While it stored the rows it was at all of them. */
  #blame(count: number, error: Error, { index, timedOut }: ReturnType<ReturnType<TimeLimit['watch']>>): PoolOutcome[] {
    const guiltless = error instanceof Interrupted || index === undefined;
    const reason = timedOut ? `took longer than ${this.#timeoutMs} ms` : error.message;
    const storing = index === count;
    return Array.from({ length: count }, (_, each) => {
      if (!guiltless && (each === index || (storing && count === 1))) return { ended: 'crashed', reason };
      return { ended: 'interrupted', reason, suspect: !guiltless && storing };
    });
  }
}
