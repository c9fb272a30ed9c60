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
  memoryMb: number;
  /** Idle time after which the thread is terminated. */
  idleMs?: number;
  rules?: SubmissionRules | undefined;
  checkTimeoutMs?: number;
  log: Log;
  file?: URL;
}

const IDLE_MS = 2000;
const CHECK_TIMEOUT_MS = 2000;

/** Parses submissions in a worker thread, one at a time. If the thread dies, only the current submission fails. */
export class SubmissionThread {
  readonly #options: Required<SubmissionThreadOptions>;
  #worker: Worker | undefined;
  #reply = Promise.withResolvers<ParsedSubmission>();
  #previousEnded: Promise<unknown> = Promise.resolve();
  #failedStarts = 0;
  #idleTimer: NodeJS.Timeout | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #retiredExit: Promise<unknown> = Promise.resolve();
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

  /** Parses a body and detaches its buffer. @throws {HttpError} if the thread dies, cannot start or is stopped */
  parse(body: SubmittedBody): Promise<ParsedSubmission> {
    const failedStarts = this.#failedStarts;
    const parsed = this.#previousEnded.then(() => {
      // If the thread fails to start, refuses all waiting submissions instead of starting another thread for each.
      if (this.#stopped || this.#failedStarts > failedStarts) throw serverBusy();
      return this.#parseNext(body);
    });
    this.#previousEnded = parsed.catch(() => {});
    return parsed;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#idleTimer);
    await Promise.all([this.#worker?.terminate(), this.#retiredExit]);
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

  #retire(): void {
    if (this.#worker !== undefined) this.#retiredExit = this.#worker.terminate();
    this.#worker = undefined;
  }

  #limitCheck(action: string): void {
    const timer = setTimeout(() => {
      // First handles the thread's reply, if the reply arrived in time while the main thread was blocked.
      setImmediate(() => {
        if (this.#checkTimer === timer) this.#endCheck(action);
      });
    }, this.#options.checkTimeoutMs);
    this.#checkTimer = timer;
  }

  #endCheck(action: string): void {
    this.#retire();
    this.#options.log.warn({ action }, 'the check of a submission took too long');
    this.#reply.resolve({ error: 'invalidData', field: { path: '', detail: 'took too long to check' } });
  }

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

  /** Rejects the current submission: with 503 if the thread was stopped or died while loading, otherwise with 500. */
  #fail(cause: unknown, wasReady: boolean): void {
    this.#worker = undefined;
    if (!wasReady) this.#failedStarts += 1;
    if (!this.#stopped) this.#options.log.error({ err: cause }, 'the submission thread ended');
    const isToBlame = wasReady && !this.#stopped;
    this.#reply.reject(isToBlame ? new HttpError('failedToQueueTask', { cause }) : serverBusy());
  }
}
