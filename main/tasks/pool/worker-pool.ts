import type { BusyPoll } from '../../../workers/busy-poll.ts';
import type { TaskProgress } from '../../../workers/messages.ts';
import { oncePerTurn } from '../once-per-turn.ts';
import type { Delivery } from '../queue/queue.ts';
import type { BatchOutcome, BatchRunner, BatchTask, RunningBatch } from './batch-runner.ts';
import { end, markStarted, type Outcome, outcomeOf, type PoolTask, runsAlone } from './pool-task.ts';

export type { Outcome };

/** Interval at which a running batch is checked for tasks that have started. */
const CHECK_MS = 5;

/** A batch in a worker thread. Deliveries that another worker takes over are removed from `tasks`. */
interface RunningTasks {
  tasks: PoolTask[];
  /** Undefined until the batch is sent to the thread. */
  inThread?: RunningBatch;
}

export type ProgressListener = (delivery: Delivery, progress: TaskProgress) => void;

type Batches = Pick<BatchRunner, 'threads' | 'durations' | 'serving' | 'run' | 'abort' | 'destroy'>;

/**
 * Runs deliveries in worker threads, in batches. An idle worker takes over the deliveries that a busy worker has not
 * started. A delivery that may kill its thread runs alone.
 */
export class WorkerPool {
  readonly threads: number;
  readonly durations: BatchRunner['durations'];
  /** Number of worker threads that are running a batch. */
  busy = 0;
  readonly #batches: Batches;
  readonly #maxBatchSize: number;
  readonly #onProgress: ProgressListener;
  readonly #waiting: PoolTask[] = [];
  readonly #running = new Set<RunningTasks>();
  readonly #poll: BusyPoll | undefined;
  /** Deferred, so that all deliveries that arrive in one event loop turn share a batch. */
  readonly #assignSoon = oncePerTurn(() => this.#assign());
  /** Whether a delivery that may have killed a process is running, so that no other delivery may start. */
  #isIsolated = false;
  #isStopping = false;
  #idle = Promise.withResolvers<void>();

  constructor(batches: Batches, maxBatchSize: number, onProgress: ProgressListener = () => {}, poll?: BusyPoll) {
    this.#onProgress = onProgress;
    this.threads = batches.threads;
    this.durations = batches.durations;
    this.#batches = batches;
    this.#maxBatchSize = maxBatchSize;
    this.#poll = poll;
  }

  /** Whether all threads are running. */
  get serving(): boolean {
    return this.#batches.serving;
  }

  /** Never rejects. Calls `onStart` when a worker starts the delivery. A suspect waits until `onStart` has resolved. */
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

  /** Ends all deliveries that are waiting for a worker thread as `interrupted`. */
  releaseWaiting(): void {
    for (const task of this.#waiting.splice(0)) end(task, { ended: 'interrupted', reason: 'no worker has started it' });
  }

  /**
   * Cancels a delivery. If no worker has started it, the delivery ends as `interrupted`, and `cancel` returns true.
   * Otherwise, aborts the handler's signal, and terminates the handler's thread after the grace period.
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

  /** Aborts all handlers and waits until they have ended or `deadline` resolves. Then terminates all threads. */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#isStopping = true;
    this.releaseWaiting();
    this.#batches.abort({ delivery: 'all', reason: 'shutdown' });
    if (this.busy > 0) await Promise.race([this.#idle.promise, deadline]);
    await this.#batches.destroy();
    if (this.busy > 0) await this.#idle.promise;
  }

  #assign(): void {
    while (this.busy < this.threads && !this.#isIsolated) {
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      void this.#runBatch(batch);
    }
  }

  /** Returns an empty array if the next delivery is a suspect and must wait until all workers are idle. */
  #nextBatch(): PoolTask[] {
    const [first] = this.#waiting;
    if (first?.delivery.suspect && this.busy > 0) return [];
    const alone = this.#waiting.findIndex(runsAlone);
    const size = alone < 0 ? this.#maxBatchSize : Math.min(this.#maxBatchSize, Math.max(alone, 1));
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
    const mayPoll = this.#poll !== undefined && this.busy === 1;
    const inThread = this.#batches.run(
      tasks.map((task) => this.#toBatchTask(task)),
      mayPoll,
    );
    running.inThread = inThread;
    if (mayPoll) this.#poll?.begin();
    const check = tasks.length > 1 ? setInterval(() => this.#check(tasks, inThread), CHECK_MS) : undefined;
    const outcomes = await inThread.outcomes;
    this.#poll?.end();
    clearInterval(check);
    return outcomes;
  }

  #check(tasks: PoolTask[], inThread: RunningBatch): void {
    const hasIdleWorker = this.busy < this.threads && !this.#isIsolated;
    if (hasIdleWorker) this.#reclaim({ tasks, inThread });
    for (const task of tasks.slice(0, inThread.started())) void markStarted(task);
  }

  #reclaim({ tasks, inThread }: RunningTasks): void {
    if (inThread === undefined) return;
    this.#waiting.unshift(...tasks.splice(inThread.reclaim()));
    this.#assignSoon();
  }

  /** Returns false if the task was interrupted and must run again. */
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
        // A cancelled task may still store its row until its handler ends, so a nack must not end the task.
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
