import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import {
  type MainToPool,
  type PoolThreadData,
  type PoolToMain,
  type TaskBatch,
  type TaskOutcome,
  TERMINATED,
} from '../../../workers/messages.ts';
import type { Log } from '../../log.ts';

type Pool = Piscina<MainToPool, TaskOutcome[]>;

export interface TaskThreadsOptions {
  /** Module whose default export processes batches of tasks. */
  file: URL;
  threads: number;
  /** Heap limit per thread in MB. A thread that needs more is terminated. */
  memoryMb: number;
  workerData: object;
  /** Shared memory in which the threads record their attempts. */
  records: PoolThreadData;
  onMessage: (message: PoolToMain) => void;
  /** Time limit for a thread to load its file and answer a self-test. */
  startTimeoutMs?: number;
  log: Log;
}

/** Thrown if a batch's thread is stopped or replaced. Does not count as a crash of any task. */
export class Interrupted extends Error {
  override name = 'Interrupted';
}

const START_TIMEOUT_MS = 10_000;
/** Time limit for starting a batch, as a multiple of the start timeout, because the batch may wait for a new thread. */
const BATCH_START_FACTOR = 1.5;
/** Delay before threads that fail to start are replaced. Doubles with each further replacement. */
const REPLACE_DELAY_MS = 50;
const LONGEST_REPLACE_DELAY_MS = 5_000;

/** Runs batches in a fixed number of threads, and replaces threads that die. */
export class TaskThreads {
  readonly #options: TaskThreadsOptions;
  readonly #startTimeoutMs: number;
  readonly #runningTasks: Int32Array;
  #piscina: Pool;
  #replacing: Promise<void> | undefined;
  readonly #destroyed = new AbortController();

  constructor(options: TaskThreadsOptions) {
    this.#options = options;
    this.#startTimeoutMs = options.startTimeoutMs ?? START_TIMEOUT_MS;
    this.#runningTasks = new Int32Array(options.records.runningTasks);
    this.#piscina = this.#create();
  }

  /** Waits for a self-test of each thread. @throws {Error} if a thread cannot load its file or does not answer */
  async start(): Promise<void> {
    try {
      await this.#selfTest(this.#piscina);
    } catch (error) {
      await this.destroy();
      throw new Error(`the task threads do not start: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Whether batches can run. False while all threads are being replaced after a failed start. */
  get serving(): boolean {
    return this.#replacing === undefined;
  }

  /** Runs a batch in an idle thread. @throws {Error} if it dies, or {@link Interrupted} if it is stopped or blocked */
  async run(batch: TaskBatch): Promise<TaskOutcome[]> {
    while (this.#replacing !== undefined) await this.#replacing;
    // Refuses the batch after `destroy`, because a destroyed Piscina would start new threads.
    if (this.#destroyed.signal.aborted) throw new Interrupted('thread stopped');
    const piscina = this.#piscina;
    const blocked = new AbortController();
    const limitMs = BATCH_START_FACTOR * this.#startTimeoutMs;
    const timeout = setTimeout(() => this.#interruptUnstarted(batch, blocked), limitMs);
    try {
      return await piscina.run(batch, { signal: blocked.signal });
    } catch (error) {
      if (blocked.signal.aborted) throw new Interrupted('the thread was blocked', { cause: error });
      // The thread's function never throws, so the thread died: in the batch, or because the threads were stopped.
      const wasStopped = this.#destroyed.signal.aborted || this.#replacing !== undefined || piscina !== this.#piscina;
      if (wasStopped) throw new Interrupted('thread stopped', { cause: error });
      throw new Error(`thread died: ${(error as Error).message}`, { cause: error });
    } finally {
      clearTimeout(timeout);
    }
  }

  terminate(threadId: number): void {
    void this.#piscina.threads.find((thread) => thread.threadId === threadId)?.terminate();
  }

  async destroy(): Promise<void> {
    this.#destroyed.abort();
    await this.#replacing;
    await this.#piscina.destroy();
  }

  #create(): Pool {
    const { file, threads, memoryMb, workerData, records, onMessage, log } = this.#options;
    const piscina: Pool = new Piscina({
      filename: fileURLToPath(file),
      minThreads: threads,
      maxThreads: threads,
      workerData: { ...workerData, ...records } satisfies PoolThreadData,
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      recordTiming: false,
      // By default, Piscina stops the event loop of an idle thread, so the thread could not poll for its next batch. The
      // option `atomics` would also keep the main thread from receiving the answers of several threads in one turn.
      env: { ...process.env, PISCINA_DISABLE_ATOMICS: '1' },
    });
    piscina.on('message', onMessage);
    piscina.on('error', (error: Error) => log.error({ err: error }, 'a task thread died outside of a task'));
    this.#watchStarts(piscina);
    return piscina;
  }

  /**
   * Replaces the thread of a batch that it has not started, because a timer that a handler left behind may block an idle
   * thread forever. The thread starts no task of the batch from then on.
   */
  #interruptUnstarted({ slot }: TaskBatch, blocked: AbortController): void {
    if (Atomics.compareExchange(this.#runningTasks, slot, -1, TERMINATED) !== -1) return;
    this.#options.log.error('a blocked task thread is replaced');
    // Piscina terminates and replaces the thread of an aborted batch.
    blocked.abort();
  }

  /** Replaces all threads if a thread does not start in time, because Piscina would keep its tasks pending forever. */
  #watchStarts(piscina: Pool): void {
    /** Start timeouts by thread id. Undefined once a thread is ready. */
    const timeouts = new Map<number, NodeJS.Timeout | undefined>();
    const replaceAll = () => {
      if (piscina !== this.#piscina || this.#destroyed.signal.aborted) return;
      this.#replacing ??= this.#replace().finally(() => {
        this.#replacing = undefined;
      });
    };
    piscina.on('workerCreate', ({ id }: { id: number }) => {
      clearTimeout(timeouts.get(id));
      timeouts.set(id, undefined);
    });
    piscina.on('workerDestroy', () => {
      // Runs after Piscina has replaced the dead thread, which happens before the next event loop turn.
      setImmediate(() => {
        const ids = new Set(piscina.threads.map(({ threadId }) => threadId));
        for (const [id, timeout] of timeouts) {
          if (ids.has(id)) continue;
          clearTimeout(timeout);
          timeouts.delete(id);
        }
        if (ids.size < this.#options.threads) return replaceAll();
        for (const id of ids) {
          if (!timeouts.has(id)) timeouts.set(id, setTimeout(replaceAll, this.#startTimeoutMs));
        }
      });
    });
  }

  async #replace(): Promise<void> {
    const { signal } = this.#destroyed;
    for (let delayMs = REPLACE_DELAY_MS; !signal.aborted; delayMs = Math.min(delayMs * 2, LONGEST_REPLACE_DELAY_MS)) {
      this.#options.log.error({ delayMs }, 'the task threads do not start: all are replaced');
      await this.#piscina.destroy();
      await delay(delayMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      this.#piscina = this.#create();
      try {
        return await this.#selfTest(this.#piscina);
      } catch {}
    }
  }

  async #selfTest(piscina: Pool): Promise<void> {
    const signal = AbortSignal.any([this.#destroyed.signal, AbortSignal.timeout(this.#startTimeoutMs)]);
    // Submits one self-test per thread, all at once, so that each thread gets exactly one.
    const { threads } = this.#options;
    const answers = Array.from({ length: threads }, () => piscina.run({ selfTest: true }, { signal }));
    await Promise.all(answers).catch((error) => {
      throw signal.aborted ? new Error('no answer', { cause: error }) : error;
    });
  }
}
