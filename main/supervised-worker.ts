import { Worker } from 'node:worker_threads';
import type { Log } from './log.ts';

export interface SupervisedWorkerOptions<FromWorker> {
  name: string;
  file: URL;
  /** @param heartbeat Int32Array of one cell, which the thread must increment several times a second if `onHeartbeat` is set */
  workerData: (heartbeat: SharedArrayBuffer) => object;
  /** Milliseconds before the first, second, … restart in a row. The last delay is used for all further restarts. */
  restartDelaysMs: readonly number[];
  /** Lifetime in milliseconds after which a thread counts as stable. The end of a stable thread resets the restart delay. */
  stableAfterMs: number;
  onMessage?: (message: FromWorker) => void;
  /** Called each time a thread has been created. */
  onSpawn?: () => void;
  /** Called when a thread has ended, before it is restarted. */
  onExit?: (threadId: number) => void;
  /** Called once a second with whether the thread sent a heartbeat since the last call. If undefined, hangs are not detected. */
  onHeartbeat?: (isAlive: boolean) => void;
  log: Log;
}

const CHECK_INTERVAL_MS = 1_000;
/** Missed heartbeats in a row after which a thread is terminated. None is counted while the main thread itself stalls. */
const MAX_MISSED = 4;

/** A worker thread that is restarted when it ends, and terminated when it hangs. */
export class SupervisedWorker<ToWorker, FromWorker> {
  readonly #options: SupervisedWorkerOptions<FromWorker>;
  readonly #heartbeat = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  #worker: Worker | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  /** Number of consecutive threads that ended before they were stable. */
  #failures = 0;
  #restarts = 0;
  #isStopped = false;

  constructor(options: SupervisedWorkerOptions<FromWorker>) {
    this.#options = options;
  }

  get restarts(): number {
    return this.#restarts;
  }

  start(): void {
    this.#spawn();
  }

  /** Starts the thread and waits for its first message. @throws {Error} if the thread ends before this message */
  async ready(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const worker = this.#spawn();
    worker.once('message', () => resolve());
    worker.once('exit', () => reject(new Error(`the ${this.#options.name} thread does not start`)));
    await promise;
  }

  /** Sends a message to the thread. The message is lost if no thread is running. */
  post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }

  /** Terminates the thread without a restart. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#restartTimer);
    await this.#worker?.terminate();
  }

  #spawn(): Worker {
    const { name, file, workerData, stableAfterMs, onMessage, onSpawn, onExit, onHeartbeat, log } = this.#options;
    const worker = new Worker(file, { workerData: workerData(this.#heartbeat), name });
    // The id is read now, because it becomes -1 when the thread ends.
    const { threadId } = worker;
    const startedAt = performance.now();
    if (onMessage !== undefined) worker.on('message', onMessage);
    worker.on('error', (error) => log.error({ err: error }, `the ${name} thread failed`));
    worker.once('exit', (code) => {
      this.#worker = undefined;
      onExit?.(threadId);
      if (performance.now() - startedAt >= stableAfterMs) this.#failures = 0;
      this.#restart(code);
    });
    this.#worker = worker;
    if (onHeartbeat !== undefined) this.#watch(worker, onHeartbeat);
    onSpawn?.();
    return worker;
  }

  #watch(worker: Worker, onHeartbeat: (isAlive: boolean) => void): void {
    const { name, log } = this.#options;
    const cell = new Int32Array(this.#heartbeat);
    let last = Atomics.load(cell, 0);
    // Missed heartbeats are counted only after the first heartbeat, so that a slow start does not count as a hang.
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

  #restart(code: number): void {
    if (this.#isStopped) return;
    const { name, restartDelaysMs, log } = this.#options;
    const delayMs = restartDelaysMs[Math.min(this.#failures, restartDelaysMs.length - 1)] as number;
    this.#failures += 1;
    this.#restarts += 1;
    log.error({ code, delayMs }, `the ${name} thread ended: it is restarted`);
    this.#restartTimer = setTimeout(() => {
      try {
        this.#spawn();
      } catch (error) {
        // A thread cannot be created while the process is at its limit of threads.
        log.error({ err: error }, `the ${name} thread failed`);
        this.#restart(1);
      }
    }, delayMs);
  }
}
