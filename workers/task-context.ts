import { parentPort } from 'node:worker_threads';
import type { HandlerLog } from './handler-log.ts';
import type { TaskContext, TaskLog } from './handlers-api.ts';
import type { AbortReason, LogLevel, ProgressReport, TaskProgress } from './messages.ts';
import { Aborted, type HandledDelivery } from './run-batch.ts';

const PROGRESS_INTERVAL_MS = 100;
const MAX_NOTE = 200;

/** The `task` argument of a module's handler. */
export class RunningTask implements TaskContext {
  readonly id: string;
  readonly action: string;
  readonly createdAt: number;
  readonly attempt: number;
  readonly ack: () => void;
  readonly nack: () => void;
  readonly #delivery: number;
  readonly #timeoutMs: number;
  readonly #handlerLog: HandlerLog;
  readonly #startedAt = performance.now();
  #controller: AbortController | undefined;
  #abortReason: AbortReason | undefined;
  #timeoutTimer: NodeJS.Timeout | undefined;
  #progress: TaskProgress | undefined;
  #progressTimer: NodeJS.Timeout | undefined;
  #reportedAt: number;
  #hasEnded = false;

  constructor(
    { id, action, created_at }: { id: string; action: string; created_at: number },
    { delivery, attempt, ack, nack }: HandledDelivery,
    timeoutMs: number,
    handlerLog: HandlerLog,
  ) {
    this.id = id;
    this.action = action;
    this.createdAt = created_at;
    this.attempt = attempt;
    this.ack = ack;
    this.nack = nack;
    this.#delivery = delivery;
    this.#timeoutMs = timeoutMs;
    this.#handlerLog = handlerLog;
    // A previous attempt may just have reported progress, perhaps in another thread.
    this.#reportedAt = attempt > 1 ? this.#startedAt : Number.NEGATIVE_INFINITY;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      const left = this.#timeoutMs - (performance.now() - this.#startedAt);
      if (this.#abortReason !== undefined) this.abort(this.#abortReason);
      else if (!this.#hasEnded) this.#timeoutTimer = setTimeout(() => this.#timeOut(), left);
    }
    return this.#controller.signal;
  }

  get log(): TaskLog {
    const own = { task: this.id, action: this.action };
    const writer =
      (level: LogLevel) =>
      (...args: unknown[]) =>
        this.#handlerLog.write(level, own, args);
    return { debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') };
  }

  readonly progress = (fraction: number, note?: string): void => {
    if (this.#hasEnded || !Number.isFinite(fraction)) return;
    const text = typeof note === 'string' ? { note: note.slice(0, MAX_NOTE) } : {};
    this.#progress = { fraction: Math.min(1, Math.max(0, fraction)), ...text };
    const waitMs = this.#reportedAt + PROGRESS_INTERVAL_MS - performance.now();
    // Checks the clock, because a timer does not fire while a handler blocks its thread.
    if (waitMs <= 0) this.#reportProgress();
    else this.#progressTimer ??= setTimeout(() => this.#reportProgress(), waitMs);
  };

  /** Aborts the attempt's signal, even if the handler reads `signal` only later. */
  abort(reason: AbortReason): void {
    this.#abortReason = reason;
    this.#controller?.abort(new DOMException(`the task was aborted: ${reason}`, 'AbortError'));
  }

  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timeoutTimer);
    clearTimeout(this.#progressTimer);
  }

  /** Returns the error to report for a handler that threw: the abort reason if the signal is aborted, or `thrown`. */
  failure(thrown: unknown): unknown {
    if (!this.#controller?.signal.aborted) return thrown;
    return this.#abortReason === undefined ? this.#controller.signal.reason : new Aborted(this.#abortReason);
  }

  #timeOut(): void {
    this.#controller?.abort(new DOMException(`took longer than ${this.#timeoutMs} ms`, 'TimeoutError'));
  }

  #reportProgress(): void {
    clearTimeout(this.#progressTimer);
    this.#progressTimer = undefined;
    if (this.#progress === undefined) return;
    this.#reportedAt = performance.now();
    parentPort?.postMessage({ delivery: this.#delivery, progress: this.#progress } satisfies ProgressReport);
    this.#progress = undefined;
  }
}
