import { Worker } from 'node:worker_threads';
import type { RetentionStart } from '../../workers/messages.ts';
import type { Log } from '../log.ts';
import { workerFile } from '../worker-file.ts';

export interface RetentionThreadOptions extends RetentionStart {
  log: Log;
  /** The thread's code; another one in tests. */
  file?: URL;
}

/** How long a thread that died is waited with; nothing is urgent about it. */
const RESTART_DELAYS_MS = [1000, 5000, 15_000, 60_000] as const;
/** A thread that has lived this long starts with a clean record. */
const GOOD_LIFE_MS = 120_000;

/** The thread that deletes old rows; one that dies, as when the database is away, is logged and followed by another. */
export class RetentionThread {
  readonly #options: RetentionThreadOptions;
  #worker: Worker;
  #restartTimer: NodeJS.Timeout | undefined;
  #deaths = 0;
  #stopped = false;

  /** Starts it. */
  constructor(options: RetentionThreadOptions) {
    this.#options = options;
    this.#worker = this.#spawn();
  }

  /** Ends it, between two steps or by taking one back. Calling it again does nothing. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#restartTimer);
    await this.#worker.terminate();
  }

  #spawn(): Worker {
    const { log, file = workerFile('retention'), ...workerData } = this.#options;
    const worker = new Worker(file, { workerData: workerData satisfies RetentionStart, name: 'retention' });
    const { threadId } = worker;
    const startedAt = Date.now();
    worker.on('error', (error) => log.error({ err: error }, 'the retention thread failed'));
    worker.once('exit', (code) => {
      this.#endTurnOf(threadId);
      this.#onExit(code, Date.now() - startedAt);
    });
    return worker;
  }

  /** A thread that died in its turn to write would keep the others waiting. */
  #endTurnOf(threadId: number): void {
    const cell = new Int32Array(this.#options.writeLock);
    if (Atomics.compareExchange(cell, 0, threadId, 0) === threadId) Atomics.notify(cell, 0, 1);
  }

  #onExit(code: number, lifeMs: number): void {
    if (this.#stopped) return;
    this.#deaths = lifeMs >= GOOD_LIFE_MS ? 0 : this.#deaths;
    const delayMs = RESTART_DELAYS_MS[Math.min(this.#deaths++, RESTART_DELAYS_MS.length - 1)] as number;
    this.#options.log.error({ code, delayMs }, 'the retention thread ended: it is started again');
    this.#restartTimer = setTimeout(() => {
      this.#worker = this.#spawn();
    }, delayMs);
  }
}
