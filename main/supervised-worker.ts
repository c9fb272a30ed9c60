import { Worker } from 'node:worker_threads';
import type { Log } from './log.ts';

export interface SupervisedWorkerOptions<FromWorker> {
  /** Name of the thread, for the log. */
  name: string;
  /** The thread's code. */
  file: URL;
  /**
   * Returns the `workerData` of a new thread.
   *
   * @param heartbeat an Int32Array of one cell, which the thread increments several times a second if it is watched
   */
  workerData: (heartbeat: SharedArrayBuffer) => object;
  /** Delay in milliseconds before each restart; the last one repeats. */
  restartDelaysMs: readonly number[];
  /** Lifetime in milliseconds after which a thread's end no longer counts as a repeated one. */
  stableAfterMs: number;
  onMessage?: (message: FromWorker) => void;
  /** Called when a thread was created, before it runs. */
  onSpawn?: () => void;
  /** Called when a thread has ended, before it is restarted. */
  onExit?: (threadId: number) => void;
  /** Called once a second with whether the thread has beaten since the last call. A thread that stops beating is terminated. */
  onHeartbeat?: (isBeating: boolean) => void;
  log: Log;
}

const CHECK_INTERVAL_MS = 1_000;
/**
 * Checks without a heartbeat after which a thread is terminated. Checks are counted instead of time, so a stalled main thread
 * does not take its worker for a hanging one.
 */
const MAX_MISSED = 4;

/** A worker thread that is restarted when it ends, and terminated when it hangs. */
export class SupervisedWorker<ToWorker, FromWorker> {
  readonly #options: SupervisedWorkerOptions<FromWorker>;
  readonly #heartbeat = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  #worker: Worker | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  /** Ends in a row of threads that did not live long enough to be stable. */
  #failures = 0;
  #restarts = 0;
  #isStopped = false;

  constructor(options: SupervisedWorkerOptions<FromWorker>) {
    this.#options = options;
  }

  /** Number of restarts so far. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Starts the thread, without waiting for it. */
  start(): void {
    this.#spawn();
  }

  /** Starts the thread and waits for its first message. @throws {Error} if it ends before that */
  async ready(): Promise<void> {
    const ready = Promise.withResolvers<void>();
    const worker = this.#spawn();
    worker.once('message', () => ready.resolve());
    worker.once('exit', () => ready.reject(new Error(`the ${this.#options.name} thread does not start`)));
    await ready.promise;
  }

  /** Sends a message to the thread. Between two threads, it is lost. */
  post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }

  /** Terminates the thread for good. Further calls do nothing. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#restartTimer);
    await this.#worker?.terminate();
  }

  #spawn(): Worker {
    const { name, file, workerData, onMessage, onSpawn, onHeartbeat, log } = this.#options;
    const worker = new Worker(file, { workerData: workerData(this.#heartbeat), name });
    const { threadId } = worker;
    const startedAt = performance.now();
    if (onMessage !== undefined) worker.on('message', onMessage);
    worker.on('error', (error) => log.error({ err: error }, `the ${name} thread failed`));
    worker.once('exit', (code) => this.#restart(code, threadId, performance.now() - startedAt));
    this.#worker = worker;
    if (onHeartbeat !== undefined) this.#watch(worker, onHeartbeat);
    onSpawn?.();
    return worker;
  }

  #watch(worker: Worker, onHeartbeat: (isBeating: boolean) => void): void {
    const { name, log } = this.#options;
    const cell = new Int32Array(this.#heartbeat);
    let last = Atomics.load(cell, 0);
    // Counts from the first heartbeat on, however long the thread takes to start.
    let missed = Number.NEGATIVE_INFINITY;
    const timer = setInterval(() => {
      const current = Atomics.load(cell, 0);
      missed = current === last ? missed + 1 : 0;
      last = current;
      if (missed >= 0) onHeartbeat(missed === 0);
      if (missed < MAX_MISSED) return;
      clearInterval(timer);
      log.error(`the ${name} thread hangs: it is terminated`);
      void worker.terminate();
    }, CHECK_INTERVAL_MS);
    worker.once('exit', () => clearInterval(timer));
  }

  #restart(code: number, threadId: number, lifetimeMs: number): void {
    const { name, restartDelaysMs, stableAfterMs, onExit, log } = this.#options;
    this.#worker = undefined;
    onExit?.(threadId);
    if (this.#isStopped) return;
    if (lifetimeMs >= stableAfterMs) this.#failures = 0;
    const delayMs = restartDelaysMs[Math.min(this.#failures, restartDelaysMs.length - 1)] as number;
    this.#failures += 1;
    this.#restarts += 1;
    log.error({ code, delayMs }, `the ${name} thread ended: it is restarted`);
    this.#restartTimer = setTimeout(() => this.#spawn(), delayMs);
  }
}
