import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import type { EarlySettlement, MainToPool, Settlement, TaskOutcome } from '../../workers/messages.ts';
import type { Log } from '../log.ts';
import { TimeLimit } from './time-limit.ts';

/** How a delivery ended, seen from the main thread. */
export type PoolOutcome =
  | TaskOutcome
  /** The thread died of it. */
  | { ended: 'crashed'; reason: string }
  /** The pool was taken down under it; nothing is known about the task. */
  | { ended: 'interrupted'; reason: string };

type Pool = Piscina<MainToPool, TaskOutcome>;

export interface WorkerPoolOptions {
  /** The file whose default export works a message off; see `workers/task-handler`. */
  file: URL;
  threads: number;
  /** How long a task may take until its thread is ended. */
  timeoutMs: number;
  /** Memory for a thread's JavaScript objects; a thread that needs more is ended. */
  memoryMb: number;
  /** What the handler needs. */
  workerData: object;
  log: Log;
}

const SELF_TEST_TIMEOUT_MS = 10_000;
/** Wait before a pool whose threads do not start is replaced; it doubles each time, up to the longest. */
const REPLACE_DELAY_MS = 50;
const LONGEST_REPLACE_DELAY_MS = 5_000;

/** A fixed number of threads that each work off one delivery at a time. The only place that knows Piscina. */
export class WorkerPool {
  readonly threads: number;
  readonly #options: WorkerPoolOptions;
  readonly #timeLimit: TimeLimit;
  readonly #listeners = new Map<number, (settlement: Settlement) => void>();
  #deliveries = 0;
  #piscina: Pool;
  /** Under way while threads do not start; what is to be run waits for its end. */
  #replacing: Promise<void> | undefined;
  readonly #destroyed = new AbortController();

  private constructor(options: WorkerPoolOptions) {
    this.threads = options.threads;
    this.#options = options;
    this.#timeLimit = new TimeLimit({
      slots: options.threads,
      timeoutMs: options.timeoutMs,
      onTimeout: (threadId) => void this.#thread(threadId)?.terminate(),
    });
    this.#piscina = this.#create();
  }

  /**
   * Starts the threads and hears from each.
   *
   * @throws {Error} when a thread cannot load its file or does not answer
   */
  static async start(options: WorkerPoolOptions): Promise<WorkerPool> {
    const pool = new WorkerPool(options);
    try {
      await pool.#selfTest(pool.#piscina);
      return pool;
    } catch (error) {
      await pool.destroy();
      throw new Error(`the task threads do not start: ${(error as Error).message}`, { cause: error });
    }
  }

  /**
   * Works a queued task message off, within the time that a task may take. Never rejects.
   *
   * @param body JSON text of the message
   * @param onSettled told when the handler settles its delivery before it ends
   * @param arrival the task's place in the order of arrival, where it has one
   */
  async run(
    body: string,
    onSettled: (settlement: Settlement) => void,
    arrival: number | null = null,
  ): Promise<PoolOutcome> {
    const { outcome, timedOut } = await this.#timeLimit.run((slot) => this.#attempt(body, onSettled, arrival, slot));
    if (!timedOut || outcome.ended !== 'crashed') return outcome;
    return { ended: 'crashed', reason: `took longer than ${this.#options.timeoutMs} ms` };
  }

  async #attempt(
    body: string,
    onSettled: (settlement: Settlement) => void,
    arrival: number | null,
    slot: number,
  ): Promise<PoolOutcome> {
    while (this.#replacing !== undefined) await this.#replacing;
    // Piscina starts new threads for what comes after it was destroyed.
    if (this.#destroyed.signal.aborted) return { ended: 'interrupted', reason: 'thread stopped' };
    const delivery = ++this.#deliveries;
    const piscina = this.#piscina;
    this.#listeners.set(delivery, onSettled);
    try {
      return await piscina.run({ delivery, body, arrival, slot });
    } catch (error) {
      // The pool's function never throws: its thread is gone.
      const reason = `thread died: ${(error as Error).message}`;
      const takenDown = this.#destroyed.signal.aborted || this.#replacing !== undefined || piscina !== this.#piscina;
      return takenDown ? { ended: 'interrupted', reason: 'thread stopped' } : { ended: 'crashed', reason };
    } finally {
      this.#listeners.delete(delivery);
    }
  }

  /** Ends all threads at once; what they work on ends as `interrupted`. Calling it again does nothing. */
  async destroy(): Promise<void> {
    this.#destroyed.abort();
    await this.#replacing;
    await this.#piscina.destroy();
  }

  #thread(threadId: number) {
    return this.#piscina.threads.find((thread) => thread.threadId === threadId);
  }

  #create(): Pool {
    const { file, threads, memoryMb, workerData, log } = this.#options;
    const piscina: Pool = new Piscina({
      filename: fileURLToPath(file),
      minThreads: threads,
      maxThreads: threads,
      workerData: { ...workerData, ...this.#timeLimit.shared },
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      recordTiming: false,
    });
    piscina.on('message', ({ delivery, settled }: EarlySettlement) => this.#listeners.get(delivery)?.(settled));
    piscina.on('error', (error: Error) => log.error({ err: error }, 'a task thread died outside of a task'));
    // A thread that dies is followed by another. But Piscina gives up on threads that fail to start, and leaves what
    // is queued for them pending for ever. It has started the follower when the event loop turns, or never.
    piscina.on('workerDestroy', () => {
      setImmediate(() => {
        if (piscina !== this.#piscina || piscina.threads.length >= threads || this.#destroyed.signal.aborted) return;
        this.#replacing ??= this.#replace().finally(() => {
          this.#replacing = undefined;
        });
      });
    });
    return piscina;
  }

  /** Takes the pool down and puts one in its place whose threads all answer, however often that takes. */
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
    const answers = Promise.all(Array.from({ length: this.threads }, () => piscina.run({ selfTest: true })));
    try {
      await Promise.race([answers, failed.promise]);
    } finally {
      signal.removeEventListener('abort', noAnswer);
      piscina.off('error', failed.reject);
    }
  }
}
