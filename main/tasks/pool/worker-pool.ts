import type { TaskProgress } from '../../../workers/messages.ts';
import { oncePerTurn } from '../once-per-turn.ts';
import type { Delivery } from '../queue/queue.ts';
import type { BatchOutcome, BatchRunner, BatchTask, RunningBatch } from './batch-runner.ts';
import { busyPoll } from './busy-poll.ts';
import { end, markStarted, type Outcome, outcomeOf, type PoolTask, runsAlone } from './pool-task.ts';

export type { Outcome };

/** Interval at which a running batch is checked for tasks that have started. Batches of short tasks end before the first check. */
const CHECK_MS = 5;

/** A batch in a worker thread. Reclaimed deliveries are removed from `tasks`. */
interface RunningTasks {
  tasks: PoolTask[];
  /** Undefined until the batch is sent to the thread. */
  inThread?: RunningBatch;
}

export type ProgressListener = (delivery: Delivery, progress: TaskProgress) => void;

type Batches = Pick<BatchRunner, 'threads' | 'durations' | 'serving' | 'run' | 'abort' | 'destroy'>;

/**
 * Runs deliveries in worker threads. Deliveries that arrive together form a batch for an idle worker. An idle worker takes over
 * the deliveries that a busy worker has not started. A delivery that may kill its thread runs alone.
 */
export class WorkerPool {
  readonly threads: number;
  /** Histograms of attempt durations, one per thread, without the time to store rows. */
  readonly durations: BatchRunner['durations'];
  /** Number of worker threads that are running a batch. */
  busy = 0;
  readonly #batches: Batches;
  readonly #maxBatch: number;
  readonly #onProgress: ProgressListener;
  /** Deliveries waiting for a worker thread. */
  readonly #waiting: PoolTask[] = [];
  readonly #running = new Set<RunningTasks>();
  readonly #poll = busyPoll();
  /** Schedules `#assign` once for all deliveries that arrive together, so that they share a batch. */
  readonly #assignSoon = oncePerTurn(() => this.#assign());
  /** Whether a suspect is running alone. A suspect is a delivery that may have killed a process. */
  #isIsolated = false;
  #isStopping = false;
  #idle = Promise.withResolvers<void>();

  /**
   * @param maxBatch maximum number of deliveries in a batch
   * @param onProgress called when the handler of a delivery reports progress
   */
  constructor(batches: Batches, maxBatch: number, onProgress: ProgressListener = () => {}) {
    this.#onProgress = onProgress;
    this.threads = batches.threads;
    this.durations = batches.durations;
    this.#batches = batches;
    this.#maxBatch = maxBatch;
  }

  /** Whether all threads are running. */
  get serving(): boolean {
    return this.#batches.serving;
  }

  /**
   * Runs a delivery. Never rejects. `onStart` is called when a worker starts the delivery. A suspect (a delivery that
   * may have killed a process) starts only once `onStart` has resolved. If `onStart` rejects, the outcome is
   * `unstored`.
   */
  run(delivery: Delivery, onStart: () => Promise<void>): Promise<Outcome> {
    if (this.#isStopping) return Promise.resolve({ ended: 'interrupted', reason: 'the pool is stopped' });
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiting.push({
      delivery,
      onStart,
      resolve,
      isStarted: false,
      isCancelled: false,
      hasEnded: false,
      isSuspect: false,
    });
    this.#assignSoon();
    return promise;
  }

  /** Ends all deliveries that are waiting for a worker thread, with the outcome `interrupted`. */
  releaseWaiting(): void {
    for (const task of this.#waiting.splice(0)) end(task, { ended: 'interrupted', reason: 'no worker has started it' });
  }

  /**
   * Cancels a delivery. A delivery that no worker has started is withdrawn: it is not run and ends as `interrupted`.
   * For a started delivery, the handler's signal is aborted. If the handler is still running after the grace period,
   * its thread is terminated. The delivery ends as `cancelled`, unless its handler returns.
   *
   * @returns whether the delivery was withdrawn
   */
  cancel(delivery: Delivery): boolean {
    const isOwn = (task: PoolTask) => task.delivery === delivery;
    for (const running of this.#running) if (running.tasks.some(isOwn)) this.#reclaim(running);
    const waiting = this.#waiting.findIndex(isOwn);
    const [withdrawn] = waiting < 0 ? [] : this.#waiting.splice(waiting, 1);
    if (withdrawn !== undefined) {
      end(withdrawn, { ended: 'interrupted', reason: 'cancelled' });
      return true;
    }
    for (const { tasks, inThread } of this.#running) {
      const index = tasks.findIndex((task) => isOwn(task) && !task.hasEnded);
      if (index < 0) continue;
      (tasks[index] as PoolTask).isCancelled = true;
      inThread?.cancel(index);
    }
    return false;
  }

  /**
   * Aborts the signals of running handlers, waits until all running deliveries have ended or `deadline` resolves, then terminates all
   * threads.
   */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#isStopping = true;
    this.releaseWaiting();
    this.#batches.abort({ delivery: 'all', reason: 'shutdown' });
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

  /**
   * Removes and returns the deliveries of the next batch. Returns none if the next delivery must wait until all workers
   * are idle.
   */
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
    const running: RunningTasks = { tasks: batch };
    this.#running.add(running);
    const outcomes = await this.#outcomesOf(running);
    this.#running.delete(running);
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

  /** Runs a batch and returns its outcomes. */
  async #outcomesOf(running: RunningTasks): Promise<BatchOutcome[]> {
    const { tasks } = running;
    const [first] = tasks as [PoolTask];
    try {
      const started = markStarted(first);
      if (this.#isIsolated) await started;
    } catch (error) {
      return [{ ended: 'unstored', reason: `the queue cannot write: ${error}` }];
    }
    if (first.isCancelled) return [{ ended: 'interrupted', reason: 'cancelled', suspect: false }];
    const inThread = this.#batches.run(tasks.map((task) => this.#toBatchTask(task)));
    running.inThread = inThread;
    if (this.busy === 1) this.#poll.begin();
    const check = tasks.length > 1 ? setInterval(() => this.#check(tasks, inThread), CHECK_MS) : undefined;
    const outcomes = await inThread.outcomes;
    this.#poll.end();
    clearInterval(check);
    return outcomes;
  }

  /** Marks the deliveries that the worker has started, and reclaims the others if another worker is idle. */
  #check(tasks: PoolTask[], inThread: RunningBatch): void {
    const hasIdleWorker = this.busy < this.threads && !this.#isIsolated;
    if (hasIdleWorker) this.#reclaim({ tasks, inThread });
    for (const task of tasks.slice(0, inThread.started())) void markStarted(task);
  }

  /** Reclaims the deliveries that the batch's worker has not started. These deliveries wait for a worker again. */
  #reclaim({ tasks, inThread }: RunningTasks): void {
    if (inThread === undefined) return;
    this.#waiting.unshift(...tasks.splice(inThread.reclaim()));
    this.#assignSoon();
  }

  /** Ends a task with its outcome in the batch. @returns false if the task was interrupted and must run again */
  #endTask(task: PoolTask, outcome: BatchOutcome): boolean {
    if (task.hasEnded) return true;
    const settled = 'settled' in outcome ? outcome.settled : undefined;
    const isDone = settled === 'ack' || (outcome.ended === 'returned' && settled === undefined);
    if (task.isCancelled && !isDone) {
      end(task, { ended: 'cancelled' });
      return true;
    }
    if (outcome.ended === 'interrupted' && settled === undefined) {
      task.isSuspect ||= outcome.suspect;
      return false;
    }
    void markStarted(task);
    end(task, settled === undefined ? outcome : outcomeOf(settled));
    return true;
  }

  #toBatchTask(task: PoolTask): BatchTask {
    const { delivery } = task;
    const { message, sequence, attempt } = delivery;
    return {
      body: message.body,
      sequence,
      attempt,
      onSettled: (how) => {
        void markStarted(task);
        // Waits for the handler to end, because only then is it known whether a cancelled task has a row.
        if (how === 'nack' && task.isCancelled) return;
        end(task, outcomeOf(how));
      },
      onProgress: (progress) => {
        if (task.hasEnded) return;
        void markStarted(task);
        this.#onProgress(delivery, progress);
      },
    };
  }
}
