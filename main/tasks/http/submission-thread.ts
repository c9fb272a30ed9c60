import { Worker } from 'node:worker_threads';
import { type ParsedSubmission, READY, type SubmittedBody } from '../../../workers/submission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import type { Log } from '../../log.ts';
import { workerFile } from '../../worker-file.ts';

export interface SubmissionThreadOptions {
  /** Heap limit of the thread in MB. */
  memoryMb: number;
  /** Milliseconds without a submission after which the thread is terminated. */
  idleMs?: number;
  log: Log;
  /** Module of the thread. Replaced in tests. */
  file?: URL;
}

const IDLE_MS = 2000;

interface Job {
  body: SubmittedBody;
  parsed: PromiseWithResolvers<ParsedSubmission>;
}

/**
 * Parses large submissions in a worker thread, one at a time. The first submission starts the thread. If the thread dies,
 * the submission that it was parsing fails, and the next submission starts a new thread.
 */
export class SubmissionThread {
  readonly #options: SubmissionThreadOptions;
  #worker: Worker | undefined;
  #current: Job | undefined;
  /** Submissions that wait for the thread. Their total size is bounded by the byte budget of unparsed request bodies. */
  readonly #waiting: Job[] = [];
  #idleTimer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: SubmissionThreadOptions) {
    this.#options = options;
  }

  /**
   * Parses a body in the thread. The body's buffer is transferred, so the caller can no longer use it.
   *
   * @throws {HttpError} `failed to queue task` if the thread dies, `server busy` if it cannot start or is stopped
   */
  parse(body: SubmittedBody): Promise<ParsedSubmission> {
    const parsed = Promise.withResolvers<ParsedSubmission>();
    this.#waiting.push({ body, parsed });
    this.#next();
    return parsed.promise;
  }

  /** Terminates the thread. All unparsed submissions fail. May be called twice. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#idleTimer);
    this.#refuseWaiting();
    await this.#worker?.terminate();
  }

  #next(): void {
    if (this.#current !== undefined) return;
    if (this.#stopped) this.#refuseWaiting();
    this.#current = this.#waiting.shift();
    clearTimeout(this.#idleTimer);
    if (this.#current === undefined) {
      const { idleMs = IDLE_MS } = this.#options;
      this.#idleTimer = setTimeout(() => this.#retire(), idleMs).unref();
      return;
    }
    const { body } = this.#current;
    try {
      this.#worker ??= this.#start();
    } catch (error) {
      this.#onExit(error, false);
      return;
    }
    this.#worker.postMessage(body, [body.bytes.buffer]);
  }

  /** Creates the parser thread. @throws {Error} if the process cannot have another thread */
  #start(): Worker {
    const { memoryMb, file = workerFile('submission-parser') } = this.#options;
    const worker = new Worker(file, { name: 'submissions', resourceLimits: { maxOldGenerationSizeMb: memoryMb } });
    let isReady = false;
    let cause: unknown;
    worker.on('message', (message: typeof READY | ParsedSubmission) => {
      if (message === READY) {
        isReady = true;
        return;
      }
      this.#current?.parsed.resolve(message);
      this.#current = undefined;
      this.#next();
    });
    worker.on('error', (error) => {
      cause = error;
    });
    worker.once('exit', () => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#onExit(cause, isReady);
    });
    return worker;
  }

  /** Terminates the idle thread, because it would keep the memory of the largest body. The next submission starts a new thread. */
  #retire(): void {
    const worker = this.#worker;
    this.#worker = undefined;
    void worker?.terminate();
  }

  /** @param wasReady whether the thread had loaded its code, so that the submission it was parsing may have caused its death */
  #onExit(cause: unknown, wasReady: boolean): void {
    const failed = this.#current?.parsed;
    this.#current = undefined;
    if (!this.#stopped) this.#options.log.error({ err: cause }, 'the submission thread ended');
    if (wasReady && !this.#stopped) failed?.reject(new HttpError('failedToQueueTask', { cause }));
    else {
      failed?.reject(serverBusy());
      // Refuses the waiting submissions. Otherwise they would start the thread again, and failing starts would repeat in a loop.
      this.#refuseWaiting();
    }
    this.#next();
  }

  #refuseWaiting(): void {
    for (const { parsed } of this.#waiting.splice(0)) parsed.reject(serverBusy());
  }
}
