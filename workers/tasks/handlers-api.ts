/** Thrown by a handler if its task can never succeed. The task is discarded without a retry. */
export class PermanentError extends Error {
  override name = 'PermanentError';
}

/** Thrown to retry the task after `delayMs` milliseconds, at most 24 hours. The attempt counts as failed. */
export class RetryAfter extends Error {
  override name = 'RetryAfter';
  readonly delayMs: number;

  constructor(delayMs: number, message = `the handler asked for a retry after ${delayMs} ms`, options?: ErrorOptions) {
    super(message, options);
    this.delayMs = delayMs;
  }
}

/** As in pino, the fields may come before the message. */
type WriteLine = (...args: [message: string, fields?: object] | [fields: object, message?: string]) => void;

/** Logger of a task. Adds the task's id (field `task`) and `action` to every line. */
export type TaskLog = Readonly<Record<'debug' | 'info' | 'warn' | 'error', WriteLine>>;

/** Running attempt. Its functions can be destructured, and do nothing once the attempt has ended. */
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
  /** Reports progress. @param fraction fraction done, from 0 to 1 @param note at most 200 characters */
  readonly progress: (fraction: number, note?: string) => void;
  /** Settles the task as done before the handler ends. Only the first `ack` or `nack` has an effect. */
  readonly ack: () => void;
  /** Settles the attempt as failed before the handler ends. Only the first `ack` or `nack` has an effect. */
  readonly nack: () => void;
}

/** Handler of an action. Its return value, awaited if it is a promise, is stored as JSON. */
// biome-ignore lint/suspicious/noExplicitAny: the author of a handler knows the type of its data.
export type Handler<Data = any> = (data: Data, task: TaskContext) => unknown;

export interface HandlerDefinition {
  handler: Handler;
  /** JSON Schema of the task's data. A submission with data that does not match is refused. */
  schema?: object;
  /** Time limit of an attempt in milliseconds. The default is `TASK_TIMEOUT_MS`. */
  timeoutMs?: number;
  /** Maximum number of attempts, including the first. The default is 5. */
  maxAttempts?: number;
  /** If false, the handler has its thread to itself, whatever `TASK_OVERLAP` is. The default is true. */
  overlap?: boolean;
}

/** Default export of a handlers module. Maps each action to its handler. */
export type Handlers = Readonly<Record<string, Handler | HandlerDefinition>>;

/** Returns `handlers` unchanged. Lets TypeScript check the handlers' types. */
export function defineHandlers<Own extends Handlers>(handlers: Own): Own {
  return handlers;
}
