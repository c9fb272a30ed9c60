import { parentPort } from 'node:worker_threads';
import type { TaskProgress } from '../../db/task-store.ts';
import { stackOf } from '../shared/frames.ts';
import { readThrown } from '../shared/thrown.ts';
import type { HandlerLog } from './handler-log.ts';
import type { TaskContext } from './handlers-api.ts';
import {
  type AbortRequest,
  type Acknowledgement,
  type FromTaskThread,
  type HandlerOutcome,
  MAX_NOTE,
} from './messages.ts';

const PROGRESS_INTERVAL_MS = 100;

/** Fields of a task that are set before its handler starts. */
export type TaskIdentity = Pick<TaskContext, 'id' | 'action' | 'createdAt' | 'attempt' | 'traceparent'>;

export class RunningTask {
  /** The `task` argument of the handler. */
  readonly context: TaskContext;
  acknowledged: Acknowledgement | undefined;
  reported: TaskProgress | undefined;
  readonly #run: number;
  #controller: AbortController | undefined;
  #abortRequest: AbortRequest | undefined;
  #progress: TaskProgress | undefined;
  #progressTimer: NodeJS.Timeout | undefined;
  #reportedAt: number;
  #hasEnded = false;

  constructor(identity: TaskIdentity, run: number, handlerLog: HandlerLog) {
    this.#run = run;
    // A previous attempt may just have reported progress, perhaps in another thread.
    this.#reportedAt = identity.attempt > 1 ? performance.now() : Number.NEGATIVE_INFINITY;
    const own = { task: identity.id, action: identity.action };
    const readSignal = () => this.#readSignal();
    this.context = {
      ...identity,
      get signal() {
        return readSignal();
      },
      log: {
        debug: (...args: unknown[]) => handlerLog.write('debug', own, args),
        info: (...args: unknown[]) => handlerLog.write('info', own, args),
        warn: (...args: unknown[]) => handlerLog.write('warn', own, args),
        error: (...args: unknown[]) => handlerLog.write('error', own, args),
      },
      progress: (fraction, note) => this.#keepProgress(fraction, note),
      ack: () => this.#acknowledge('ack'),
      nack: () => this.#acknowledge('nack'),
    };
  }

  /** Aborts the signal, even if the handler reads `signal` only later. Only the first request has an effect. */
  abort(request: AbortRequest): void {
    if (this.#hasEnded || this.#abortRequest !== undefined) return;
    this.#abortRequest = request;
    this.#controller?.abort(abortError(request));
  }

  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#progressTimer);
  }

  /** Returns the outcome of a handler that threw. The reason is the abort, if the handler had read `signal`. */
  outcomeOf(thrown: unknown): HandlerOutcome {
    const request = this.#controller && this.#abortRequest;
    if (request === undefined) {
      const failure = readThrown(thrown);
      const stack = stackOf(thrown, failure);
      return { ended: 'raised', ...failure, ...(stack && { stack }) };
    }
    if (request.reason === 'timeout') return { ended: 'raised', ...readThrown(abortError(request)) };
    return { ended: 'released', reason: request.reason };
  }

  #readSignal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abortRequest !== undefined) this.#controller.abort(abortError(this.#abortRequest));
    }
    return this.#controller.signal;
  }

  #keepProgress(fraction: number, note: unknown): void {
    if (this.#hasEnded || !Number.isFinite(fraction)) return;
    const text = typeof note === 'string' ? { note: note.slice(0, MAX_NOTE) } : {};
    this.#progress = { fraction: Math.min(1, Math.max(0, fraction)), ...text };
    const waitMs = this.#reportedAt + PROGRESS_INTERVAL_MS - performance.now();
    // Checks the clock, because a timer does not fire while a handler blocks its thread.
    if (waitMs <= 0) this.#reportProgress();
    else this.#progressTimer ??= setTimeout(() => this.#reportProgress(), waitMs);
  }

  #acknowledge(how: Acknowledgement): void {
    if (this.#hasEnded || this.acknowledged !== undefined) return;
    this.acknowledged = how;
    parentPort?.postMessage({ run: this.#run, acknowledged: how } satisfies FromTaskThread);
  }

  #reportProgress(): void {
    clearTimeout(this.#progressTimer);
    this.#progressTimer = undefined;
    if (this.#progress === undefined) return;
    this.#reportedAt = performance.now();
    this.reported = this.#progress;
    parentPort?.postMessage({ run: this.#run, progress: this.#progress } satisfies FromTaskThread);
    this.#progress = undefined;
  }
}

function abortError(request: AbortRequest): DOMException {
  return request.reason === 'timeout'
    ? new DOMException(`took longer than ${request.limitMs} ms`, 'TimeoutError')
    : new DOMException(`the task was aborted: ${request.reason}`, 'AbortError');
}
