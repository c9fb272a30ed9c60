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

/** Interval at which a running batch is checked. Batches of short tasks end earlier. */
const CHECK_MS = 5;

/** Outcome of a delivery in the pool. */
export type Outcome =
  /** The row is stored, or the handler has acknowledged the task itself. */
  | { ended: 'returned' }
  | { ended: 'raised'; reason: string; permanent: boolean }
  /** The handler returned, but no rows can be stored at present. */
  | { ended: 'unstored'; reason: string }
  /** The task killed its thread. */
  | { ended: 'crashed'; reason: string }
  /** The attempt was ended by something other than the task. */
  | { ended: 'interrupted'; reason: string };

/** A delivery in the pool. */
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
  /** Number of worker threads. */
  readonly threads: number;
  /** Durations of attempts by thread, without the time to store rows. */
  readonly durations: BatchRunner['durations'];
  /** Number of workers that run a batch. */
  busy = 0;
  readonly #batches: Batches;
  readonly #maxBatch: number;
  /** Deliveries not given to a worker yet. */
  readonly #waiting: PoolTask[] = [];
  readonly #poll = new BusyPoll();
  /** Deferred assignment, so that deliveries that arrive together share a batch. */
  readonly #assignSoon = oncePerTurn(() => this.#assign());
  /** Whether a suspect of a process death is running. Nothing else runs at the same time. */
  #isIsolated = false;
  #isStopping = false;
  #idle = Promise.withResolvers<void>();

  /** @param maxBatch most deliveries in a batch */
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
   * Runs a delivery. Never rejects. `onStart` is called when a worker has started the delivery. For a suspect, it is awaited
   * before the start; if it rejects, the outcome is `unstored`.
   */
  run(delivery: Delivery, onStart: () => Promise<void>): Promise<Outcome> {
    if (this.#isStopping) return Promise.resolve({ ended: 'interrupted', reason: 'the pool is stopped' });
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiting.push({ delivery, onStart, resolve, isStarted: false, hasEnded: false, isSuspect: false });
    this.#assignSoon();
    return promise;
  }

  /** Ends the deliveries not given to a worker, with the outcome `interrupted`. */
  releaseWaiting(): void {
    for (const task of this.#waiting.splice(0)) end(task, { ended: 'interrupted', reason: 'no worker has started it' });
  }

  /** Waits until the running deliveries have ended, at most until `deadline`; then terminates all threads. */
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

  /** Removes the first waiting deliveries that may share a batch. A suspect waits until all workers are idle. */
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

  /** Returns the outcomes of a batch, from which reclaimed deliveries are removed. */
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

  /** Ends a task with its outcome in the batch. @returns false for an interrupted task, which runs again */
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

/** Outcome of a delivery that its handler has settled, regardless of how the handler ends. */
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
