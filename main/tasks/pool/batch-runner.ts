import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/histogram.ts';
import type {
  AbortRequest,
  Acknowledgement,
  PoolToMain,
  TaskBatch,
  TaskDelivery,
  TaskProgress,
} from '../../../workers/messages.ts';
import type { Log } from '../../log.ts';
import { type BatchOutcome, blame } from './blame.ts';
import { writeHandlerLine } from './handler-log.ts';
import { type BatchCancellation, taskCancellation } from './task-cancellation.ts';
import { Interrupted, TaskThreads, type TaskThreadsOptions } from './task-threads.ts';
import { taskTimeout } from './task-timeout.ts';

export type { BatchOutcome };

export interface BatchTask extends Omit<TaskDelivery, 'delivery'> {
  /** Called if the handler acks or nacks its delivery before the handler returns. */
  onSettled(acknowledgement: Acknowledgement): void;
  onProgress(progress: TaskProgress): void;
}

export interface RunningBatch {
  /** Outcomes of the batch's tasks, without the tasks removed by `reclaim`. Never rejects. */
  outcomes: Promise<BatchOutcome[]>;
  /** Returns the number of tasks that the thread has started. */
  started(): number;
  /** Removes all unstarted tasks from the batch. Returns the number of tasks that remain. */
  reclaim(): number;
  /** Aborts the batch's task at `index`. Terminates the thread if the task is still running after the grace period. */
  cancel(index: number): void;
}

export interface BatchRunnerOptions extends Omit<TaskThreadsOptions, 'records' | 'onMessage'> {
  /** Default time limit of an attempt. Actions may have their own limits. */
  timeoutMs: number;
  /** Shortest time limit of all actions. The default is `timeoutMs`. */
  shortestTimeoutMs?: number;
  /** Time in milliseconds that a handler may keep running after its task is cancelled. */
  graceMs?: number;
  /** Name of the `BroadcastChannel` on which the threads receive each {@link AbortRequest}. */
  abortChannel?: string;
}

/** Runs batches of tasks in worker threads. If a thread dies, determines which task of its batch is to blame. */
export class BatchRunner {
  readonly threads: number;
  /** Histograms of attempt durations, one per thread, without the time to store rows. */
  readonly durations: readonly Histogram[];
  readonly #timeout: ReturnType<typeof taskTimeout>;
  /** Number of started tasks of each running batch, in memory shared with the worker threads. */
  readonly #startedTasks: Int32Array;
  readonly #cancellation: ReturnType<typeof taskCancellation>;
  readonly #running = new Map<number, BatchTask>();
  #aborts: BroadcastChannel | undefined;
  readonly #log: Log;
  readonly #taskThreads: TaskThreads;
  readonly #freeSlots: number[];
  #deliveries = 0;

  private constructor(options: BatchRunnerOptions) {
    const { threads, timeoutMs, shortestTimeoutMs = timeoutMs, graceMs = 1000, abortChannel } = options;
    const slots = Array.from({ length: threads }, (_, slot) => slot);
    const startedTasks = new SharedArrayBuffer(threads * Int32Array.BYTES_PER_ELEMENT);
    const cells = new SharedArrayBuffer(threads * Histogram.bytes(TASK_DURATION_BOUNDS));
    this.threads = threads;
    this.durations = slots.map((slot) => new Histogram(TASK_DURATION_BOUNDS, cells, slot));
    this.#timeout = taskTimeout(threads, shortestTimeoutMs, (threadId) => this.#taskThreads.terminate(threadId));
    const terminate = (slot: number) => this.#taskThreads.terminate(this.#timeout.threadIn(slot));
    this.#cancellation = taskCancellation(threads, graceMs, terminate);
    this.#startedTasks = new Int32Array(startedTasks);
    this.#freeSlots = slots;
    // Errors logged by handlers arrive as plain objects, whose `type` the default serializer would set to `Object`.
    this.#log = options.log.child({}, { serializers: { err: (err) => err } });
    this.#taskThreads = new TaskThreads({
      ...options,
      records: {
        attempts: this.#timeout.attempts,
        startedTasks,
        runningTasks: this.#cancellation.runningTasks,
        durations: { bounds: TASK_DURATION_BOUNDS, cells },
        timeoutMs,
      },
      onMessage: (message) => this.#receive(message),
    });
    if (abortChannel !== undefined) this.#aborts = new BroadcastChannel(abortChannel);
  }

  /** Starts and tests all threads. @throws {Error} if a thread cannot load its file or does not answer */
  static async start(options: BatchRunnerOptions): Promise<BatchRunner> {
    const runner = new BatchRunner(options);
    try {
      await runner.#taskThreads.start();
      return runner;
    } catch (error) {
      await runner.destroy();
      throw error;
    }
  }

  get serving(): boolean {
    return this.#taskThreads.serving;
  }

  /** Runs a batch in a free thread, which may then poll for its next batch. @throws {Error} if no thread is free */
  run(tasks: readonly BatchTask[], mayPoll = false): RunningBatch {
    const slot = this.#freeSlots.pop();
    if (slot === undefined) throw new Error('no thread is free');
    Atomics.store(this.#startedTasks, slot, 0);
    const cancellation = this.#cancellation.watch(slot);
    const deliveries = tasks.map(({ body, sequence, attempt }) => {
      return { delivery: ++this.#deliveries, body, sequence, attempt };
    });
    let kept = tasks.length;
    let isOver = false;
    for (const [index, { delivery }] of deliveries.entries()) this.#running.set(delivery, tasks[index] as BatchTask);
    const outcomes = this.#runIn({ tasks: deliveries, slot, mayPoll }, cancellation, () => kept).finally(() => {
      isOver = true;
      cancellation.end();
      for (const { delivery } of deliveries) this.#running.delete(delivery);
      this.#freeSlots.push(slot);
    });
    return {
      outcomes,
      started: () => (isOver ? kept : Math.min(kept, Atomics.load(this.#startedTasks, slot))),
      reclaim: () => {
        if (!isOver) kept = Math.min(kept, Atomics.exchange(this.#startedTasks, slot, RECLAIMED));
        return kept;
      },
      cancel: (index) => {
        const { delivery } = deliveries[index] as TaskDelivery;
        if (isOver) return;
        this.abort({ delivery, reason: 'cancelled' });
        cancellation.cancel(index);
      },
    };
  }

  abort(request: AbortRequest): void {
    this.#aborts?.postMessage(request);
  }

  /** Terminates all threads, so that their tasks end as `interrupted`. Safe to call more than once. */
  async destroy(): Promise<void> {
    this.#aborts?.close();
    this.#aborts = undefined;
    await this.#taskThreads.destroy();
  }

  #receive(message: PoolToMain): void {
    try {
      if ('logLine' in message) writeHandlerLine(this.#log, message.logLine);
      else if ('settled' in message) this.#running.get(message.delivery)?.onSettled(message.settled);
      else if ('progress' in message)
        this.#running.get(message.delivery)?.onProgress(checkedProgress(message.progress));
    } catch (error) {
      // A handlers module can send invalid messages through its thread's port.
      this.#log.warn({ reason: (error as Error).message }, 'a task thread sent an invalid message');
    }
  }

  /** `kept` returns the number of tasks that `reclaim` has left in the batch. */
  async #runIn(batch: TaskBatch, cancellation: BatchCancellation, kept: () => number): Promise<BatchOutcome[]> {
    const ended = this.#timeout.watch(batch.slot);
    try {
      const outcomes = await this.#taskThreads.run(batch);
      // A terminating thread can still claim a task of another thread's batch, whose outcome is then missing.
      if (outcomes.length !== kept()) throw new Interrupted('a task of the batch was claimed by another thread');
      return outcomes;
    } catch (error) {
      const cause = cancellation.isTerminated() ? new Interrupted('a task of the batch was cancelled') : error;
      return blame(cause as Error, ended(), batch.tasks.length, kept());
    } finally {
      ended();
    }
  }
}

function checkedProgress({ fraction, note }: TaskProgress): TaskProgress {
  const isNote = note === undefined || (typeof note === 'string' && note.length <= 200);
  if (!(fraction >= 0 && fraction <= 1) || typeof fraction !== 'number' || !isNote) throw new Error('invalid progress');
  return { fraction, ...(note !== undefined && { note }) };
}

/** Stored as the number of started tasks of a batch. Exceeds any batch size, so the thread starts no further task. */
const RECLAIMED = 2 ** 30;
