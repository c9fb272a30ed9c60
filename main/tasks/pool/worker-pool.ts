import type { Acknowledgement } from '../../../workers/messages.ts';
import { oncePerTurn } from '../once-per-turn.ts';
import type { Delivery } from '../queue/queue.ts';
import {
  type BatchOutcome,
  type BatchRun,
  BatchRunner,
  type BatchRunnerOptions,
  type BatchTask,
} from './batch-runner.ts';
import { BusyPoll } from './busy-poll.ts';
import type { Outcome } from './outcome.ts';

/** Interval at which a running batch is checked. Batches of short tasks end earlier. */
const CHECK_MS = 5;

/** Runs batches in threads. */
export type Runner = Pick<BatchRunner, 'threads' | 'runs' | 'serving' | 'run' | 'destroy'>;

/** A delivery in the pool. */
interface Run {
  delivery: Delivery;
  onStart: () => Promise<void>;
  /** Resolves the promise of `WorkerPool.run`. Only the first call has an effect. */
  end: (outcome: Outcome) => void;
  isStarted: boolean;
  hasEnded: boolean;
  /** Whether the task may have caused the death of a thread. */
  isSuspect: boolean;
}

/**
 * Runs deliveries in worker threads. Deliveries that arrive together form a batch for an idle worker. An idle worker takes over
 * the deliveries that a busy one has not started. A delivery that may kill its thread runs in a batch of its own.
 */
export class WorkerPool {
  readonly #runner: Runner;
  readonly #maxBatch: number;
  /** Deliveries not given to a worker yet. */
  readonly #waiting: Run[] = [];
  readonly #poll = new BusyPoll();
  /** Deferred assignment, so that deliveries that arrive together share a batch. */
  readonly #assignSoon = oncePerTurn(() => this.#assign());
  #busy = 0;
  /** Whether a suspect of a process death is running. Nothing else runs at the same time. */
  #isIsolated = false;
  #isStopping = false;
  #idle = Promise.withResolvers<void>();

  /** @param maxBatch most deliveries in a batch */
  constructor(runner: Runner, maxBatch: number) {
    this.#runner = runner;
    this.#maxBatch = maxBatch;
  }

  /** Starts the worker threads. @throws {Error} if a thread cannot load its file or does not answer */
  static async start({ maxBatch, ...options }: BatchRunnerOptions & { maxBatch: number }): Promise<WorkerPool> {
    return new WorkerPool(await BatchRunner.start(options), maxBatch);
  }

  get threads(): number {
    return this.#runner.threads;
  }

  /** Whether all threads are running. */
  get serving(): boolean {
    return this.#runner.serving;
  }

  /** Durations of attempts by thread, without the time to store rows. */
  get runs(): BatchRunner['runs'] {
    return this.#runner.runs;
  }

  /** Number of workers that run a batch. */
  get busy(): number {
    return this.#busy;
  }

  /**
   * Runs a delivery. Never rejects.
   *
   * @param onStart called when a worker has started the delivery. For a suspect, called and awaited before the start; if it
   *   rejects, the outcome is `unstored`
   */
  run(delivery: Delivery, onStart: () => Promise<void>): Promise<Outcome> {
    if (this.#isStopping) return Promise.resolve(STOPPED);
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const run: Run = { delivery, onStart, end: resolve, isStarted: false, hasEnded: false, isSuspect: false };
    this.#waiting.push(run);
    this.#assignSoon();
    return promise;
  }

  /** Ends the deliveries not given to a worker, with the outcome `interrupted`. */
  releaseWaiting(): void {
    for (const run of this.#waiting.splice(0)) end(run, { ended: 'interrupted', reason: 'no worker has started it' });
  }

  /** Waits until the running deliveries have ended, at most until `deadline`; then terminates all threads. */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#isStopping = true;
    this.releaseWaiting();
    if (this.#busy > 0) await Promise.race([this.#idle.promise, deadline]);
    await this.#runner.destroy();
    if (this.#busy > 0) await this.#idle.promise;
  }

  /** Gives each idle worker a batch. */
  #assign(): void {
    while (this.#busy < this.#runner.threads && !this.#isIsolated) {
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      void this.#runBatch(batch);
    }
  }

  /** Removes and returns the first waiting deliveries that may share a batch. A suspect waits until all workers are idle. */
  #nextBatch(): Run[] {
    const [first] = this.#waiting;
    if (first?.delivery.suspect && this.#busy > 0) return [];
    const alone = this.#waiting.findIndex(runsAlone);
    const size = alone < 0 ? this.#maxBatch : Math.min(this.#maxBatch, Math.max(alone, 1));
    return this.#waiting.splice(0, size);
  }

  async #runBatch(batch: Run[]): Promise<void> {
    this.#busy += 1;
    this.#isIsolated = batch.some(({ delivery }) => delivery.suspect);
    const outcomes = await this.#outcomesOf(batch);
    this.#busy -= 1;
    this.#isIsolated = false;
    const interrupted = batch.filter((run, index) => !this.#endRun(run, outcomes[index] as BatchOutcome));
    this.#waiting.unshift(...interrupted);
    if (this.#isStopping) this.releaseWaiting();
    this.#assignSoon();
    if (this.#busy > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers();
  }

  /** Runs a batch, and returns its outcomes. @param batch reclaimed deliveries are removed from it */
  async #outcomesOf(batch: Run[]): Promise<BatchOutcome[]> {
    const [first] = batch as [Run];
    try {
      const started = markStarted(first);
      if (this.#isIsolated) await started;
    } catch (error) {
      return [{ ended: 'unstored', reason: `the queue cannot write: ${error}` }];
    }
    const batchRun = this.#runner.run(batch.map(toTask));
    if (this.#busy === 1) this.#poll.begin();
    const check = batch.length > 1 ? setInterval(() => this.#check(batch, batchRun), CHECK_MS) : undefined;
    const outcomes = await batchRun.outcomes;
    this.#poll.end();
    clearInterval(check);
    return outcomes;
  }

  /** Marks the deliveries that the worker has started, and reclaims the others if another worker is idle. */
  #check(batch: Run[], batchRun: BatchRun): void {
    const hasIdleWorker = this.#busy < this.#runner.threads && !this.#isIsolated;
    if (hasIdleWorker) {
      this.#waiting.unshift(...batch.splice(batchRun.reclaim()));
      this.#assignSoon();
    }
    for (const run of batch.slice(0, batchRun.started())) void markStarted(run);
  }

  /** Ends a run with its outcome in the batch. @returns false for an interrupted delivery, which runs again */
  #endRun(run: Run, outcome: BatchOutcome): boolean {
    if (run.hasEnded) return true;
    if (outcome.ended === 'interrupted') {
      run.isSuspect ||= outcome.suspect;
      return false;
    }
    void markStarted(run);
    end(run, 'settled' in outcome && outcome.settled !== undefined ? outcomeOf(outcome.settled) : outcome);
    return true;
  }
}

const STOPPED: Outcome = { ended: 'interrupted', reason: 'the pool is stopped' };

/** Whether a delivery needs a batch of its own, because its task has killed, or may have killed, a thread or process. */
function runsAlone({ delivery, isSuspect }: Run): boolean {
  return isSuspect || delivery.suspect || delivery.crashes > 0;
}

function toTask(run: Run): BatchTask {
  const { message, sequence } = run.delivery;
  const onSettled = (how: Acknowledgement) => {
    void markStarted(run);
    end(run, outcomeOf(how));
  };
  return { body: message.body, arrival: sequence, onSettled };
}

/** Outcome of a delivery that its handler has settled, regardless of how the handler ends. */
function outcomeOf(acknowledgement: Acknowledgement): Outcome {
  if (acknowledgement === 'ack') return { ended: 'returned' };
  return { ended: 'raised', reason: 'negatively acknowledged by its handler', permanent: false };
}

function markStarted(run: Run): Promise<void> | undefined {
  if (run.isStarted || run.hasEnded) return undefined;
  run.isStarted = true;
  return run.onStart();
}

function end(run: Run, outcome: Outcome): void {
  run.hasEnded = true;
  run.end(outcome);
}
