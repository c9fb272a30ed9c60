import { Worker } from 'node:worker_threads';
import type { SubmissionRules } from '../../../workers/handlers-manifest.ts';
import {
  type CheckStarted,
  type ParsedSubmission,
  READY,
  type SubmittedBody,
} from '../../../workers/parse-submission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import type { Log } from '../../log.ts';
import { workerFile } from '../../worker-file.ts';

export interface SubmissionThreadOptions {
  /** Heap limit of the thread in MB. */
  memoryMb: number;
  /** Idle time after which the thread is terminated. */
  idleMs?: number;
  /** Rules for checking submissions in the thread. */
  rules?: SubmissionRules | undefined;
  /** Time limit for checking one submission, after which the thread is terminated. */
  checkTimeoutMs?: number;
  log: Log;
  /** Module that the thread runs. Replaced in tests. */
  file?: URL;
}

const IDLE_MS = 2000;
const CHECK_TIMEOUT_MS = 2000;

/**
 * Parses large submissions, and submissions whose check needs a time limit, in a worker thread, one at a time. If the
 * thread dies or a check exceeds its time limit, only the current submission fails. The next submission starts a new
 * thread.
 */
export class SubmissionThread {
  readonly #options: Required<SubmissionThreadOptions>;
  #worker: Worker | undefined;
  /** The thread's reply to the submission that it is parsing. */
  #reply = Promise.withResolvers<ParsedSubmission>();
  /** Resolves once the latest submission is parsed or has failed. The next submission waits for this promise. */
  #last: Promise<unknown> = Promise.resolve();
  /** Number of threads that died while loading their code. */
  #failedStarts = 0;
  #idleTimer: NodeJS.Timeout | undefined;
  /** Timer of the current check, if the check has a time limit. */
  #checkTimer: NodeJS.Timeout | undefined;
  /** Resolves once the last thread terminated by `#retire` has exited. */
  #retired: Promise<unknown> = Promise.resolve();
  #stopped = false;

  constructor(options: SubmissionThreadOptions) {
    this.#options = {
      rules: undefined,
      idleMs: IDLE_MS,
      checkTimeoutMs: CHECK_TIMEOUT_MS,
      file: workerFile('submission-parser'),
      ...options,
    };
  }

  /**
   * Parses a body in the thread. The body's buffer is transferred, so the caller can no longer use it.
   *
   * @throws {HttpError} `failed to queue task` if the thread dies, `server busy` if it cannot start or has been stopped
   */
  parse(body: SubmittedBody): Promise<ParsedSubmission> {
    const failedStarts = this.#failedStarts;
    const parsed = this.#last.then(() => {
      // If the thread fails to start, refuses all waiting submissions instead of starting another thread for each.
      if (this.#stopped || this.#failedStarts > failedStarts) throw serverBusy();
      return this.#parseNext(body);
    });
    this.#last = parsed.catch(() => {});
    return parsed;
  }

  /** Terminates the thread. All unparsed submissions fail. Safe to call more than once. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#idleTimer);
    await Promise.all([this.#worker?.terminate(), this.#retired]);
  }

  async #parseNext(body: SubmittedBody): Promise<ParsedSubmission> {
    clearTimeout(this.#idleTimer);
    this.#reply = Promise.withResolvers();
    try {
      this.#worker ??= this.#start();
    } catch (error) {
      this.#fail(error, false);
    }
    this.#worker?.postMessage(body, [body.bytes.buffer]);
    try {
      return await this.#reply.promise;
    } finally {
      clearTimeout(this.#checkTimer);
      this.#checkTimer = undefined;
      this.#idleTimer = setTimeout(() => this.#retire(), this.#options.idleMs).unref();
    }
  }

  /** Terminates the thread to free its memory. The next submission starts a new thread. */
  #retire(): void {
    if (this.#worker !== undefined) this.#retired = this.#worker.terminate();
    this.#worker = undefined;
  }

  /** Starts the timer that ends the current check. */
  #limitCheck(action: string): void {
    // A reply may have arrived while the main thread was blocked. `setImmediate` lets that reply be handled first.
    const timer = setTimeout(() => {
      setImmediate(() => {
        if (this.#checkTimer === timer) this.#endCheck(action);
      });
    }, this.#options.checkTimeoutMs);
    this.#checkTimer = timer;
  }

  /** Ends a check that takes too long: terminates the thread and refuses the current submission. */
  #endCheck(action: string): void {
    this.#retire();
    this.#options.log.warn({ action }, 'the check of a submission took too long');
    this.#reply.resolve({ error: 'invalidData', field: { path: '', detail: 'took too long to check' } });
  }

  /** Creates the parser thread. @throws {Error} if the process cannot create another thread */
  #start(): Worker {
    const { memoryMb, rules: workerData, file } = this.#options;
    const resourceLimits = { maxOldGenerationSizeMb: memoryMb };
    const worker = new Worker(file, { name: 'submissions', workerData, resourceLimits });
    let isReady = false;
    let cause: unknown;
    worker.on('message', (message: typeof READY | CheckStarted | ParsedSubmission) => {
      if (message === READY) isReady = true;
      else if ('checking' in message) this.#limitCheck(message.checking);
      else this.#reply.resolve(message);
    });
    worker.on('error', (error) => {
      cause = error;
    });
    worker.once('exit', () => {
      if (this.#worker === worker) this.#fail(cause, isReady);
    });
    return worker;
  }

  /**
   * Fails the current submission.
   *
   * @param wasReady whether the thread had loaded its code, so that the submission may have killed it
   */
  #fail(cause: unknown, wasReady: boolean): void {
    this.#worker = undefined;
    if (!wasReady) this.#failedStarts += 1;
    if (!this.#stopped) this.#options.log.error({ err: cause }, 'the submission thread ended');
    const isToBlame = wasReady && !this.#stopped;
    this.#reply.reject(isToBlame ? new HttpError('failedToQueueTask', { cause }) : serverBusy());
  }
}
