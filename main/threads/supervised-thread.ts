import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Log } from '../log/log.ts';

/** Returns the URL of a worker thread's module in `workers/`: a `.ts` file, or a `.js` file when compiled. */
export function threadFile(name: string): URL {
  return new URL(`../../workers/${name}${extname(import.meta.filename)}`, import.meta.url);
}

export interface SupervisedThreadOptions<FromWorker> {
  name: string;
  file: URL;
  /** @param heartbeat Int32 counter that the thread must increment several times a second if `onHeartbeat` is set */
  workerData: (heartbeat: SharedArrayBuffer) => object;
  onMessage?: (message: FromWorker) => void;
  /** Receives the thread's standard output and error. If undefined, the output goes to the process's own streams. */
  onOutput?: ((text: string) => void) | undefined;
  onSpawn?: () => void;
  onExit?: () => void;
  /** Called once a second with whether the heartbeat advanced. Without this callback, hangs are not detected. */
  onHeartbeat?: (isAlive: boolean) => void;
  log: Log;
}

/** Delays before consecutive restarts. The last delay also applies to all further restarts. */
const RESTART_DELAYS_MS = [0, 100, 500, 1000, 5000];
/** Run time after which a thread counts as stable. The end of a stable thread resets the restart delay. */
const STABLE_AFTER_MS = 10_000;
const CHECK_INTERVAL_MS = 1_000;
const MAX_MISSED_HEARTBEATS = 4;

/** Worker thread that is restarted when it ends, and terminated when it hangs. */
export class SupervisedThread<ToWorker, FromWorker> {
  restarts = 0;
  readonly #options: SupervisedThreadOptions<FromWorker>;
  readonly #heartbeat = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  readonly #firstMessage = Promise.withResolvers<void>();
  #worker: Worker | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  #failures = 0;
  #isStopped = false;

  constructor(options: SupervisedThreadOptions<FromWorker>) {
    this.#options = options;
  }

  /** Starts the thread. The promise, which may be ignored, waits for its first message, and rejects if it ends first. */
  start(): Promise<void> {
    const { promise, reject } = this.#firstMessage;
    promise.catch(() => {});
    this.#spawn().once('exit', () => reject(new Error(`the ${this.#options.name} thread does not start`)));
    return promise;
  }

  /** Sends a message to the thread. Discards the message if the thread is not running. */
  post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }

  /** Terminates the thread, and prevents its restart. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#restartTimer);
    await this.#worker?.terminate();
  }

  #spawn(): Worker {
    const { name, file, workerData, onMessage, onOutput, onSpawn, onExit, onHeartbeat, log } = this.#options;
    const own = onOutput !== undefined;
    const worker = new Worker(file, { workerData: workerData(this.#heartbeat), name, stdout: own, stderr: own });
    if (onOutput !== undefined) {
      for (const output of [worker.stdout, worker.stderr]) output.setEncoding('utf8').on('data', onOutput);
    }
    const startedAt = performance.now();
    worker.on('message', (message) => {
      this.#firstMessage.resolve();
      onMessage?.(message);
    });
    worker.on('error', (error) => log.error({ err: error }, `the ${name} thread failed`));
    worker.once('exit', (code) => {
      this.#worker = undefined;
      onExit?.();
      if (performance.now() - startedAt >= STABLE_AFTER_MS) this.#failures = 0;
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
    // -Infinity until the first heartbeat, so that a slowly starting thread does not count as hanging.
    let missed = Number.NEGATIVE_INFINITY;
    const timer = setInterval(() => {
      const current = Atomics.load(cell, 0);
      missed = current === last ? missed + 1 : 0;
      last = current;
      if (missed >= 0) onHeartbeat(missed === 0);
      if (missed < MAX_MISSED_HEARTBEATS) return;
      clearInterval(timer);
      log.error(`the ${name} thread hangs: it is terminated`);
      void worker.terminate();
    }, CHECK_INTERVAL_MS);
    worker.once('exit', () => clearInterval(timer));
  }

  #restart(code: number): void {
    if (this.#isStopped) return;
    const { name, log } = this.#options;
    const delayMs = RESTART_DELAYS_MS[Math.min(this.#failures, RESTART_DELAYS_MS.length - 1)] as number;
    this.#failures += 1;
    this.restarts += 1;
    log.error({ code, delayMs }, `the ${name} thread ended: it is restarted`);
    this.#restartTimer = setTimeout(() => {
      try {
        this.#spawn();
      } catch (error) {
        // `#spawn` throws if the process has reached its limit of threads.
        log.error({ err: error }, `the ${name} thread failed`);
        this.#restart(1);
      }
    }, delayMs);
  }
}
