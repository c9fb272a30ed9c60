import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import type { EarlySettlement, MainToPool, PoolThreadData, TaskBatch, TaskOutcome } from '../../../workers/messages.ts';
import type { Log } from '../../log.ts';

type Pool = Piscina<MainToPool, TaskOutcome[]>;

export interface TaskThreadsOptions {
  /** Module whose default export processes tasks; see `workers/task-batch`. */
  file: URL;
  threads: number;
  /** Heap limit of a thread in MB. A thread that needs more is terminated. */
  memoryMb: number;
  /** Fields of the threads' `workerData` that the task handler needs. */
  workerData: object;
  /** Shared memory in which the threads record their attempts. */
  records: Pick<PoolThreadData, 'attempts' | 'startedTasks' | 'durations'>;
  onSettled: (settlement: EarlySettlement) => void;
  /** Write lock shared with other threads. By default, the pool creates its own. */
  writeLock?: SharedArrayBuffer;
  log: Log;
}

/** Thrown if the thread that runs a batch dies. */
export class ThreadDied extends Error {
  override name = 'ThreadDied';
}

/** Thrown if the threads are stopped or replaced while a batch runs. None of its tasks is the cause. */
export class Interrupted extends Error {
  override name = 'Interrupted';
}

const SELF_TEST_TIMEOUT_MS = 10_000;
/** Delay before threads that do not start are replaced. The delay doubles each time, up to `LONGEST_REPLACE_DELAY_MS`. */
const REPLACE_DELAY_MS = 50;
const LONGEST_REPLACE_DELAY_MS = 5_000;

/** Runs batches in a fixed number of threads, each replaced when it dies. Only this file imports the thread pool Piscina. */
export class TaskThreads {
  readonly #options: TaskThreadsOptions;
  readonly #writeLock: SharedArrayBuffer;
  #piscina: Pool;
  /** Resolves when all threads have been replaced, because one failed to start. Batches wait for it. Otherwise undefined. */
  #replacing: Promise<void> | undefined;
  /** Ids of the pool's threads, including dead threads that may still hold the write lock. */
  readonly #threadIds = new Set<number>();
  readonly #destroyed = new AbortController();

  constructor(options: TaskThreadsOptions) {
    this.#options = options;
    this.#writeLock = options.writeLock ?? new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    this.#piscina = this.#create();
  }

  /** Waits until each thread has passed a self-test. @throws {Error} if a thread cannot load its file or does not answer */
  async start(): Promise<void> {
    try {
      await this.#selfTest(this.#piscina);
    } catch (error) {
      await this.destroy();
      throw new Error(`the task threads do not start: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Whether batches can run. False while all threads are replaced because one failed to start. */
  get serving(): boolean {
    return this.#replacing === undefined;
  }

  /** Runs a batch in an idle thread. @throws {ThreadDied | Interrupted} */
  async run(batch: TaskBatch): Promise<TaskOutcome[]> {
    while (this.#replacing !== undefined) await this.#replacing;
    // Refuses the batch after `destroy`, because a destroyed Piscina would start new threads for it.
    if (this.#destroyed.signal.aborted) throw new Interrupted('thread stopped');
    const piscina = this.#piscina;
    try {
      return await piscina.run(batch);
    } catch (error) {
      // The function in the thread never throws, so a rejection means that the thread is gone.
      const wasStopped = this.#destroyed.signal.aborted || this.#replacing !== undefined || piscina !== this.#piscina;
      if (wasStopped) throw new Interrupted('thread stopped', { cause: error });
      throw new ThreadDied(`thread died: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Terminates a thread, unless it has already ended. */
  terminate(threadId: number): void {
    void this.#piscina.threads.find((thread) => thread.threadId === threadId)?.terminate();
  }

  /** Terminates all threads. May be called again. */
  async destroy(): Promise<void> {
    this.#destroyed.abort();
    await this.#replacing;
    await this.#piscina.destroy();
  }

  #create(): Pool {
    const { file, threads, memoryMb, workerData, records, onSettled, log } = this.#options;
    const piscina: Pool = new Piscina({
      filename: fileURLToPath(file),
      minThreads: threads,
      maxThreads: threads,
      workerData: { ...workerData, ...records, writeLock: this.#writeLock } satisfies PoolThreadData,
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      recordTiming: false,
    });
    piscina.on('message', onSettled);
    piscina.on('workerCreate', ({ id }: { id: number }) => this.#threadIds.add(id));
    piscina.on('error', (error: Error) => log.error({ err: error }, 'a task thread died outside of a task'));
    // All threads are replaced if one fails to start, because its tasks would stay pending forever. Piscina replaces other dead
    // threads itself, before the next turn of the event loop.
    piscina.on('workerDestroy', () => {
      setImmediate(() => {
        if (piscina !== this.#piscina) return;
        this.#releaseWriteLock();
        if (piscina.threads.length >= threads || this.#destroyed.signal.aborted) return;
        this.#replacing ??= this.#replace().finally(() => {
          this.#replacing = undefined;
        });
      });
    });
    return piscina;
  }

  /** Releases the write lock if a dead thread of the pool holds it. The retention thread, which shares the lock, may keep it. */
  #releaseWriteLock(): void {
    const cell = new Int32Array(this.#writeLock);
    const alive = new Set(this.#piscina.threads.map(({ threadId }) => threadId));
    for (const id of this.#threadIds) {
      if (alive.has(id)) continue;
      this.#threadIds.delete(id);
      if (Atomics.compareExchange(cell, 0, id, 0) === id) Atomics.notify(cell, 0, 1);
    }
  }

  /** Replaces all threads, repeatedly until all of them pass the self-test. */
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
      try {
        return await this.#selfTest(this.#piscina);
      } catch {}
    }
  }

  async #selfTest(piscina: Pool): Promise<void> {
    const failed = Promise.withResolvers<never>();
    const noAnswer = () => failed.reject(new Error('no answer'));
    const signal = AbortSignal.any([this.#destroyed.signal, AbortSignal.timeout(SELF_TEST_TIMEOUT_MS)]);
    signal.addEventListener('abort', noAnswer);
    piscina.once('error', failed.reject);
    // As many self-tests as threads are submitted together, so that each thread gets one.
    const answers = Promise.all(Array.from({ length: this.#options.threads }, () => piscina.run({ selfTest: true })));
    try {
      await Promise.race([answers, failed.promise]);
    } finally {
      signal.removeEventListener('abort', noAnswer);
      piscina.off('error', failed.reject);
    }
  }
}
