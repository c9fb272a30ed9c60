import type { Acknowledgement } from '../../../workers/messages.ts';
import { oncePerTurn } from '../once-per-turn.ts';
import type { Delivery } from '../queue/queue.ts';
import {
  type BatchOutcome,
  BatchRunner,
  type BatchRunnerOptions,
  type BatchTask,
  type RunningBatch,
} from './batch-runner.ts';
import { BusyPoll } from './busy-poll.ts';

/** Milliseconds between two checks of which tasks of a running batch have started. Batches of short tasks end earlier. */
const CHECK_MS = 5;

/** Outcome of running a delivery in the pool. */
export type Outcome =
  /** The task's row is stored, or its handler has acknowledged the delivery itself. */
  | { ended: 'returned' }
  | { ended: 'raised'; reason: string; permanent: boolean }
  /** The task's row was not stored, or its start was not recorded, because no writes are possible at present. */
  | { ended: 'unstored'; reason: string }
  /** The thread died, or was terminated after the time limit, because of this task. */
  | { ended: 'crashed'; reason: string }
  /** The attempt was not started, or was ended for a reason other than the task. */
  | { ended: 'interrupted'; reason: string };

/** A delivery that waits or runs in the pool, with its state. */
interface PoolTask {
  delivery: Delivery;
  onStart: () => Promise<void>;
  /** Resolves the promise of `WorkerPool.run`. Only the first call has an effect. */
  resolve: (outcome: Outcome) => void;
  isStarted: boolean;
  hasEnded: boolean;
  /** Whether the task may have caused the death of a thread. */
  isSuspect: boolean;
}

type Batches = Pick<BatchRunner, 'threads' | 'durations' | 'serving' | 'run' | 'destroy'>;

/**
 * Runs deliveries in worker threads. Deliveries that arrive together form a batch for an idle worker. An idle worker takes over
 * the deliveries that a busy one has not started. A delivery that may kill its thread runs in a batch of its own.
 */
export class WorkerPool {
  readonly threads: number;
  /** One histogram per thread with the durations of attempts, without the time to store rows. */
  readonly durations: BatchRunner['durations'];
  /** Number of worker threads that are running a batch. */
  busy = 0;
  readonly #batches: Batches;
  readonly #maxBatch: number;
  /** Deliveries that wait for a worker thread. */
  readonly #waiting: PoolTask[] = [];
  readonly #poll = new BusyPoll();
  /** Schedules `#assign` after the pending promise callbacks, so that deliveries that arrive together share a batch. */
  readonly #assignSoon = oncePerTurn(() => this.#assign());
  /** Whether a delivery runs alone, because a process died while its message was in flight and it may be the cause. */
  #isIsolated = false;
  #isStopping = false;
  #idle = Promise.withResolvers<void>();

  /** @param maxBatch maximum number of deliveries in a batch */
  constructor(batches: Batches, maxBatch: number) {
    this.threads = batches.threads;
    this.durations = batches.durations;
    this.#batches = batches;
    this.#maxBatch = maxBatch;
  }

  /** Starts the worker threads. @throws {Error} if a thread cannot load its file or does not answer */
  static async start({ maxBatch, ...options }: BatchRunnerOptions & { maxBatch: number }): Promise<WorkerPool> {
    return new WorkerPool(await BatchRunner.start(options), maxBatch);
  }

  /** Whether all threads are running. */
  get serving(): boolean {
    return this.#batches.serving;
  }

  /**
   * Runs a delivery. Never rejects. `onStart` is called when a worker has started the delivery. For a suspect (a process died
   * while the message was in flight), `onStart` is awaited before the start; if `onStart` rejects, the outcome is `unstored`.
   */
  run(delivery: Delivery, onStart: () => Promise<void>): Promise<Outcome> {
    if (this.#isStopping) return Promise.resolve({ ended: 'interrupted', reason: 'the pool is stopped' });
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiting.push({ delivery, onStart, resolve, isStarted: false, hasEnded: false, isSuspect: false });
    this.#assignSoon();
    return promise;
  }

  /** Ends all deliveries that wait for a worker thread, with the outcome `interrupted`. */
  releaseWaiting(): void {
    for (const task of this.#waiting.splice(0)) end(task, { ended: 'interrupted', reason: 'no worker has started it' });
  }

  /** Waits until the running deliveries have ended or `deadline` resolves, then terminates all threads. */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#isStopping = true;
    this.releaseWaiting();
    if (this.busy > 0) await Promise.race([this.#idle.promise, deadline]);
    await this.#batches.destroy();
    if (this.busy > 0) await this.#idle.promise;
  }

  /** Gives each idle worker a batch. */
  #assign(): void {
    while (this.busy < this.threads && !this.#isIsolated) {
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      void this.#runBatch(batch);
    }
  }

  /** Removes and returns the next deliveries that may share a batch; none if the next one is a suspect and a worker is busy. */
  #nextBatch(): PoolTask[] {
    const [first] = this.#waiting;
    if (first?.delivery.suspect && this.busy > 0) return [];
    const alone = this.#waiting.findIndex(runsAlone);
    const size = alone < 0 ? this.#maxBatch : Math.min(this.#maxBatch, Math.max(alone, 1));
    return this.#waiting.splice(0, size);
  }

  async #runBatch(batch: PoolTask[]): Promise<void> {
    this.busy += 1;
    this.#isIsolated = batch.some(({ delivery }) => delivery.suspect);
    const outcomes = await this.#outcomesOf(batch);
    this.busy -= 1;
    this.#isIsolated = false;
    const interrupted = batch.filter((task, index) => !this.#endTask(task, outcomes[index] as BatchOutcome));
    this.#waiting.unshift(...interrupted);
    if (this.#isStopping) this.releaseWaiting();
    this.#assignSoon();
    if (this.busy > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers();
  }

  /** Runs a batch and returns its outcomes. Deliveries that are reclaimed during the run are removed from `batch`. */
  async #outcomesOf(batch: PoolTask[]): Promise<BatchOutcome[]> {
    try {
      const started = markStarted(batch[0] as PoolTask);
      if (this.#isIsolated) await started;
    } catch (error) {
      return [{ ended: 'unstored', reason: `the queue cannot write: ${error}` }];
    }
    const running = this.#batches.run(batch.map(toBatchTask));
    if (this.busy === 1) this.#poll.begin();
    const check = batch.length > 1 ? setInterval(() => this.#check(batch, running), CHECK_MS) : undefined;
    const outcomes = await running.outcomes;
    this.#poll.end();
    clearInterval(check);
    return outcomes;
  }

  /** Marks the deliveries that the worker has started, and reclaims the others if another worker is idle. */
  #check(batch: PoolTask[], running: RunningBatch): void {
    const hasIdleWorker = this.busy < this.threads && !this.#isIsolated;
    if (hasIdleWorker) {
      this.#waiting.unshift(...batch.splice(running.reclaim()));
      this.#assignSoon();
    }
    for (const task of batch.slice(0, running.started())) void markStarted(task);
  }

  /** Ends a task with its outcome in the batch. @returns false if the task was interrupted, so that it must run again */
  #endTask(task: PoolTask, outcome: BatchOutcome): boolean {
    if (task.hasEnded) return true;
    if (outcome.ended === 'interrupted') {
      task.isSuspect ||= outcome.suspect;
      return false;
    }
    void markStarted(task);
    end(task, 'settled' in outcome && outcome.settled !== undefined ? outcomeOf(outcome.settled) : outcome);
    return true;
  }
}

/** Whether a delivery needs a batch of its own, because its task has killed, or may have killed, a thread or process. */
function runsAlone({ delivery, isSuspect }: PoolTask): boolean {
  return isSuspect || delivery.suspect || delivery.crashes > 0;
}

function toBatchTask(task: PoolTask): BatchTask {
  const { message, sequence } = task.delivery;
  const onSettled = (how: Acknowledgement) => {
    void markStarted(task);
    end(task, outcomeOf(how));
  };
  return { body: message.body, sequence, onSettled };
}

/** Returns the outcome of a delivery that its handler has settled itself, regardless of how the handler ends. */
function outcomeOf(acknowledgement: Acknowledgement): Outcome {
  if (acknowledgement === 'ack') return { ended: 'returned' };
  return { ended: 'raised', reason: 'negatively acknowledged by its handler', permanent: false };
}

function markStarted(task: PoolTask): Promise<void> | undefined {
  if (task.isStarted || task.hasEnded) return undefined;
  task.isStarted = true;
  return task.onStart();
}

function end(task: PoolTask, outcome: Outcome): void {
  task.hasEnded = true;
  task.resolve(outcome);
}
