/** API for handlers modules: handler types, and errors that decide what follows a failed attempt. */

/** Thrown by a handler if its task can never succeed. The task is discarded without a retry. */
export class PermanentError extends Error {
  override name = 'PermanentError';
}

/** Thrown by a handler to have its task retried after `delayMs` milliseconds, at most 24 hours. The attempt counts as failed. */
export class RetryAfter extends Error {
  override name = 'RetryAfter';
  readonly delayMs: number;

  constructor(delayMs: number, message = `the handler asked for a retry after ${delayMs} ms`, options?: ErrorOptions) {
    super(message, options);
    this.delayMs = delayMs;
  }
}

/** Writes a log line, with the message first or, as in pino, the fields first. */
type WriteLine = (...args: [message: string, fields?: object] | [fields: object, message?: string]) => void;

/** Log of a task. Its lines have the fields `task` (the id) and `action`. */
export type TaskLog = Readonly<Record<'debug' | 'info' | 'warn' | 'error', WriteLine>>;

/** A running attempt at a task. Its functions can be destructured, and have no effect once the attempt has ended. */
export interface TaskContext {
  readonly id: string;
  readonly action: string;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Creation time of the task in Unix seconds. */
  readonly createdAt: number;
  /** Aborted when the attempt exceeds its time limit, the task is cancelled, or the process stops. */
  readonly signal: AbortSignal;
  readonly log: TaskLog;
  /** Reports progress. @param fraction how much is done, from 0 to 1 @param note at most 200 characters */
  readonly progress: (fraction: number, note?: string) => void;
  /** Settles the task as done while the handler is still running. Has no effect later. */
  readonly ack: () => void;
  /** Settles the attempt as failed while the handler is still running. Has no effect later. */
  readonly nack: () => void;
}

/** Handler of an action. The value that it returns, or that its promise resolves to, is stored as JSON. */
// biome-ignore lint/suspicious/noExplicitAny: the author of a handler knows the type of its data.
export type Handler<Data = any> = (data: Data, task: TaskContext) => unknown;

/** A handler with its action's settings. */
export interface HandlerDefinition {
  handler: Handler;
  /** JSON Schema of `data`. A submission with other data is refused. */
  schema?: object;
  /** Time limit of an attempt in milliseconds. The default is `TASK_TIMEOUT_MS`. */
  timeoutMs?: number;
  /** Maximum number of attempts, including the first. The default is 5. */
  maxAttempts?: number;
}

/** Default export of a handlers module: the handlers by action. */
export type Handlers = Readonly<Record<string, Handler | HandlerDefinition>>;

/** Returns its argument unchanged. Exists so that TypeScript checks the handlers' types. */
export function defineHandlers<Own extends Handlers>(handlers: Own): Own {
  return handlers;
}
