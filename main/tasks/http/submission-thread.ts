import { Worker } from 'node:worker_threads';
import type { Clock } from '../../../workers/shared/clock.ts';
import {
  type CheckStarted,
  type ParsedBatch,
  type ParsedSubmission,
  READY,
  type SubmittedBatch,
  type SubmittedBody,
} from '../../../workers/submissions/parse-submission.ts';
import type { SubmissionRules } from '../../../workers/tasks/messages.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import type { Log } from '../../log/log.ts';
import { threadFile } from '../../threads/supervised-thread.ts';

export interface SubmissionThreadOptions {
  memoryMb: number;
  idleMs?: number;
  rules?: SubmissionRules | undefined;
  checkTimeoutMs?: number;
  clock: Clock;
  log: Log;
  file?: URL;
}

/** Parses submissions in a worker thread, one at a time. If the thread dies, only the current submission fails. */
export class SubmissionThread {
  readonly #options: Required<SubmissionThreadOptions>;
  #worker: Worker | undefined;
  #reply = Promise.withResolvers<ParsedSubmission | ParsedBatch>();
  #previousEnded: Promise<unknown> = Promise.resolve();
  #failedStarts = 0;
  #cancelIdleTimer = () => {};
  #cancelCheckTimer: (() => void) | undefined;
  #retiredExit: Promise<unknown> = Promise.resolve();
  #stopped = false;

  constructor(options: SubmissionThreadOptions) {
    this.#options = {
      rules: undefined,
      idleMs: 2000,
      checkTimeoutMs: 2000,
      file: threadFile('submissions/parser-thread'),
      ...options,
    };
  }

  /** Parses a body and detaches its buffer. @throws {HttpError} if the thread dies, cannot start or is stopped */
  parse(body: SubmittedBody): Promise<ParsedSubmission>;
  parse(body: SubmittedBatch): Promise<ParsedBatch>;
  parse(body: SubmittedBody | SubmittedBatch): Promise<ParsedSubmission | ParsedBatch> {
    const failedStarts = this.#failedStarts;
    const parsed = this.#previousEnded.then(() => {
      // If the thread fails to start, refuses all waiting submissions instead of starting another thread for each.
      if (this.#stopped || this.#failedStarts > failedStarts) throw serverBusy();
      return this.#parseNext(body);
    });
    this.#previousEnded = parsed.catch(() => {});
    return parsed;
  }

  /** Starts another thread, with the present rules, for the next submission. */
  reload(): void {
    this.#previousEnded = this.#previousEnded.then(() => this.#retire());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelIdleTimer();
    await Promise.all([this.#worker?.terminate(), this.#retiredExit]);
  }

  async #parseNext(body: SubmittedBody | SubmittedBatch): Promise<ParsedSubmission | ParsedBatch> {
    this.#cancelIdleTimer();
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
      this.#cancelCheckTimer?.();
      this.#cancelCheckTimer = undefined;
      if (!this.#stopped) this.#cancelIdleTimer = this.#options.clock.timer(this.#options.idleMs, () => this.#retire());
    }
  }

  #retire(): void {
    if (this.#worker !== undefined) this.#retiredExit = this.#worker.terminate();
    this.#worker = undefined;
  }

  /** Begins with the first check of a body, so that the limit holds for all checks of a batch together. */
  #limitCheck(action: string): void {
    if (this.#cancelCheckTimer !== undefined) return;
    const cancel = this.#options.clock.timer(this.#options.checkTimeoutMs, () => {
      // First handles the thread's reply, if the reply arrived in time while the main thread was blocked.
      setImmediate(() => {
        if (this.#cancelCheckTimer !== cancel) return;
        this.#retire();
        this.#options.log.warn({ action }, 'the check of a submission took too long');
        this.#reply.resolve({ error: 'invalidData', field: { path: '', detail: 'took too long to check' } });
      });
    });
    this.#cancelCheckTimer = cancel;
  }

  #start(): Worker {
    const { memoryMb, rules: workerData, file } = this.#options;
    const resourceLimits = { maxOldGenerationSizeMb: memoryMb };
    const worker = new Worker(file, { name: 'submissions', workerData, resourceLimits });
    let isReady = false;
    let cause: unknown;
    worker.on('message', (message: typeof READY | CheckStarted | ParsedSubmission | ParsedBatch) => {
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
