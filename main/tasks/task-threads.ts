import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import type { EarlySettlement, MainToPool, PoolThreadData, TaskBatch, TaskOutcome } from '../../workers/messages.ts';
import type { Log } from '../log.ts';

type Pool = Piscina<MainToPool, TaskOutcome[]>;

export interface TaskThreadsOptions {
  /** The file whose default export works tasks off; see `workers/task-handler`. */
  file: URL;
  threads: number;
  /** Memory for a thread's JavaScript objects; a thread that needs more is ended. */
  memoryMb: number;
  /** What the handler needs. */
  workerData: object;
  /** Where the threads note what they are at. */
  notes: Pick<PoolThreadData, 'attempts' | 'begun' | 'runs'>;
  onSettled: (settlement: EarlySettlement) => void;
  /** The turn to write, where it is shared with others than the pool's threads. */
  writeLock?: SharedArrayBuffer;
  log: Log;
}

/** The thread died under a batch. */
export class ThreadDied extends Error {
  override name = 'ThreadDied';
}

/** All threads were taken down under a batch; it says nothing about its tasks. */
export class Interrupted extends Error {
  override name = 'Interrupted';
}

const SELF_TEST_TIMEOUT_MS = 10_000;
/** Wait before threads that do not start are replaced; it doubles each time, up to the longest. */
const REPLACE_DELAY_MS = 50;
const LONGEST_REPLACE_DELAY_MS = 5_000;

/** A fixed number of threads, each followed by another when it dies. The only place that knows Piscina. */
export class TaskThreads {
  readonly #options: TaskThreadsOptions;
  readonly #writeLock: SharedArrayBuffer;
  #piscina: Pool;
  /** Under way while threads do not start; what is to be run waits for its end. */
  #replacing: Promise<void> | undefined;
  /** Thread ids of the pool, dead ones included until their turn to write is ended. */
  readonly #threadIds = new Set<number>();
  readonly #destroyed = new AbortController();

  private constructor(options: TaskThreadsOptions) {
    this.#options = options;
    this.#writeLock = options.writeLock ?? new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    this.#piscina = this.#create();
  }

  /**
   * Starts the threads and hears from each.
   *
   * @throws {Error} when a thread cannot load its file or does not answer
   */
  static async start(options: TaskThreadsOptions): Promise<TaskThreads> {
    const threads = new TaskThreads(options);
    try {
      await threads.#selfTest(threads.#piscina);
      return threads;
    } catch (error) {
      await threads.destroy();
      throw new Error(`the task threads do not start: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Whether no thread has failed to start. */
  get serving(): boolean {
    return this.#replacing === undefined;
  }

  /** Works a batch off in some thread. @throws {ThreadDied | Interrupted} */
  async run(batch: TaskBatch): Promise<TaskOutcome[]> {
    while (this.#replacing !== undefined) await this.#replacing;
    // Piscina starts new threads for what comes after it was destroyed.
    if (this.#destroyed.signal.aborted) throw new Interrupted('thread stopped');
    const piscina = this.#piscina;
    try {
      return await piscina.run(batch);
    } catch (error) {
      // The pool's function never throws: its thread is gone.
      const takenDown = this.#destroyed.signal.aborted || this.#replacing !== undefined || piscina !== this.#piscina;
      if (takenDown) throw new Interrupted('thread stopped', { cause: error });
      throw new ThreadDied(`thread died: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Ends one thread, in the midst of what it does. */
  terminate(threadId: number): void {
    void this.#piscina.threads.find((thread) => thread.threadId === threadId)?.terminate();
  }

  /** Ends all threads at once. Calling it again does nothing. */
  async destroy(): Promise<void> {
    this.#destroyed.abort();
    await this.#replacing;
    await this.#piscina.destroy();
  }

  #create(): Pool {
    const { file, threads, memoryMb, workerData, notes, onSettled, log } = this.#options;
    const piscina: Pool = new Piscina({
      filename: fileURLToPath(file),
      minThreads: threads,
      maxThreads: threads,
      workerData: { ...workerData, ...notes, writeLock: this.#writeLock } satisfies PoolThreadData,
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      recordTiming: false,
    });
    piscina.on('message', onSettled);
    piscina.on('workerCreate', ({ id }: { id: number }) => this.#threadIds.add(id));
    piscina.on('error', (error: Error) => log.error({ err: error }, 'a task thread died outside of a task'));
    // A thread that dies is followed by another. But Piscina gives up on threads that fail to start, and leaves what
    // is queued for them pending for ever. It has started the follower when the event loop turns, or never.
    piscina.on('workerDestroy', () => {
      setImmediate(() => {
        if (piscina !== this.#piscina) return;
        this.#endTurnOfDead();
        if (piscina.threads.length >= threads || this.#destroyed.signal.aborted) return;
        this.#replacing ??= this.#replace().finally(() => {
          this.#replacing = undefined;
        });
      });
    });
    return piscina;
  }

  /** Ends the turn of a pool thread that died in it, for which the others would wait. Never that of the retention thread. */
  #endTurnOfDead(): void {
    const cell = new Int32Array(this.#writeLock);
    const alive = new Set(this.#piscina.threads.map(({ threadId }) => threadId));
    for (const id of this.#threadIds) {
      if (alive.has(id)) continue;
      this.#threadIds.delete(id);
      if (Atomics.compareExchange(cell, 0, id, 0) === id) Atomics.notify(cell, 0, 1);
    }
  }

  /** Takes all threads down and puts others in their place that all answer, however often that takes. */
  async #replace(): Promise<void> {
    for (
      let delayMs = REPLACE_DELAY_MS;
      !this.#destroyed.signal.aborted;
      delayMs = Math.min(delayMs * 2, LONGEST_REPLACE_DELAY_MS)
    ) {
      this.#options.log.error({ delayMs }, 'the task threads do not start: all are replaced');
      await this.#piscina.destroy();
      await setTimeout(delayMs, undefined, { signal: this.#destroyed.signal }).catch(() => {});
      if (this.#destroyed.signal.aborted) return;
      this.#piscina = this.#create();
      const answers = await this.#selfTest(this.#piscina).then(
        () => true,
        () => false,
      );
      if (answers) return;
    }
  }

  async #selfTest(piscina: Pool): Promise<void> {
    const failed = Promise.withResolvers<never>();
    const noAnswer = () => failed.reject(new Error('no answer'));
    const signal = AbortSignal.any([this.#destroyed.signal, AbortSignal.timeout(SELF_TEST_TIMEOUT_MS)]);
    signal.addEventListener('abort', noAnswer);
    piscina.once('error', failed.reject);
    // As many at once as there are threads, so that each gets one.
    const answers = Promise.all(Array.from({ length: this.#options.threads }, () => piscina.run({ selfTest: true })));
    try {
      await Promise.race([answers, failed.promise]);
    } finally {
      signal.removeEventListener('abort', noAnswer);
      piscina.off('error', failed.reject);
    }
  }
}
