import { Worker } from 'node:worker_threads';
import type { Log } from './log.ts';

export interface SupervisedWorkerOptions<FromWorker> {
  name: string;
  file: URL;
  /** @param heartbeat Int32Array of one element. If `onHeartbeat` is set, the thread must increment it several times a second */
  workerData: (heartbeat: SharedArrayBuffer) => object;
  /** Delays in milliseconds before the first, second, … consecutive restart. The last delay applies to all further restarts. */
  restartDelaysMs: readonly number[];
  /** Lifetime in milliseconds after which a thread counts as stable. When a stable thread ends, the restart delay is reset. */
  stableAfterMs: number;
  /** Recognizes the messages of the thread's own code. All others are discarded. Required if the thread imports a user's module. */
  isMessage?: (message: unknown) => message is FromWorker;
  onMessage?: (message: FromWorker) => void;
  /** Called with what the thread writes to its standard output or error. If undefined, the output goes to the process's own streams. */
  onOutput?: ((text: string) => void) | undefined;
  /** Called after each thread is created. */
  onSpawn?: () => void;
  /** Called when a thread has ended, before it is restarted. */
  onExit?: () => void;
  /** Called once a second. `isAlive` is true if there was a heartbeat since the last call. If undefined, hangs are not detected. */
  onHeartbeat?: (isAlive: boolean) => void;
  log: Log;
}

const CHECK_INTERVAL_MS = 1_000;
/** Consecutive missed heartbeats after which a thread is terminated. None are counted while the main thread itself is blocked. */
const MAX_MISSED = 4;

/** A worker thread that is restarted when it ends, and terminated when it hangs. */
export class SupervisedWorker<ToWorker, FromWorker> {
  readonly #options: SupervisedWorkerOptions<FromWorker>;
  readonly #heartbeat = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  readonly #firstMessage = Promise.withResolvers<void>();
  #worker: Worker | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  /** Number of consecutive restarts without a stable thread in between. */
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
    const { promise, reject } = this.#firstMessage;
    const worker = this.#spawn();
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
    const { name, file, workerData, stableAfterMs, onOutput, onSpawn, onExit, onHeartbeat, log } = this.#options;
    const own = onOutput !== undefined;
    const worker = new Worker(file, { workerData: workerData(this.#heartbeat), name, stdout: own, stderr: own });
    if (onOutput !== undefined) {
      for (const output of [worker.stdout, worker.stderr]) output.setEncoding('utf8').on('data', onOutput);
    }
    const startedAt = performance.now();
    worker.on('message', (message: unknown) => this.#receive(message));
    worker.on('error', (error) => log.error({ err: error }, `the ${name} thread failed`));
    worker.once('exit', (code) => {
      this.#worker = undefined;
      onExit?.();
      if (performance.now() - startedAt >= stableAfterMs) this.#failures = 0;
      this.#restart(code);
    });
    this.#worker = worker;
    if (onHeartbeat !== undefined) this.#watch(worker, onHeartbeat);
    onSpawn?.();
    return worker;
  }

  #receive(message: unknown): void {
    const { isMessage, onMessage } = this.#options;
    if (isMessage?.(message) === false) return;
    this.#firstMessage.resolve();
    onMessage?.(message as FromWorker);
  }

  #watch(worker: Worker, onHeartbeat: (isAlive: boolean) => void): void {
    const { name, log } = this.#options;
    const cell = new Int32Array(this.#heartbeat);
    let last = Atomics.load(cell, 0);
    // Missed heartbeats are counted only after the first heartbeat, so that a slow start is not mistaken for a hang.
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
        // Creating a thread fails while the process is at its thread limit.
        log.error({ err: error }, `the ${name} thread failed`);
        this.#restart(1);
      }
    }, delayMs);
  }
}
