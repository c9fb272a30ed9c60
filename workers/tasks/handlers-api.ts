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
  /** Header `traceparent` of the submission (W3C Trace Context). Undefined if it had none. */
  readonly traceparent: string | undefined;
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
  /** Delays before the retries. */
  backoff?: Partial<Backoff>;
  /** If false, the handler has its thread to itself, whatever `TASK_OVERLAP` is. The default is true. */
  overlap?: boolean;
  /** Limits on the tasks of the action that run and start, over all threads and nodes. `PUT /limits/<action>` overrides them. */
  limits?: TaskLimit & { /** The same for each limit key. */ perKey?: TaskLimit };
  /** URL that receives a `POST` when a task ends, unless its submission has a `callback_url`. Its host is in `CALLBACK_HOSTS`. */
  callback?: string;
}

/** The delay before a retry is random, from 0 to a bound that grows with each failed attempt. */
export interface Backoff {
  /** Bound of the first delay. The default is 6,000. */
  firstMs: number;
  /** Factor between the bounds of two delays, from 1 to 10. The default is 3. */
  factor: number;
  /** Largest bound. The default is an hour. */
  maxMs: number;
}

/** At least one field is given. */
export interface TaskLimit {
  /** Number of tasks that run at once. */
  concurrency?: number;
  /** Number of tasks that start in any period of this length. */
  rate?: { count: number; seconds: number };
}

/** Default export of a handlers module. Maps each action to its handler. */
export type Handlers = Readonly<Record<string, Handler | HandlerDefinition>>;

/** Schedule of a handlers module, with the fields of `PUT /schedules/<name>`. */
export interface ScheduleDefinition {
  /** Five fields, or six with seconds. */
  cron: string;
  /** IANA time zone. The default is `UTC`. */
  time_zone?: string;
  action: string;
  /** Data of the tasks. The default is `{}`. */
  data?: object;
  /** From 1, the first, to 5. The default is 3. */
  priority?: 1 | 2 | 3 | 4 | 5;
  limit_key?: string;
  /** URL that receives a `POST` when a task of the schedule ends. */
  callback_url?: string;
  /** Which missed times run. The default is `one`: a single task for all of them. */
  catch_up?: 'none' | 'one' | 'all';
  /** Whether a time is skipped while a task of the schedule is unfinished. The default is `allow`. */
  overlap?: 'allow' | 'skip';
  paused?: boolean;
}

/** Export `schedules` of a handlers module, by name. */
export type Schedules = Readonly<Record<string, ScheduleDefinition>>;

/** Returns `handlers` unchanged. Lets TypeScript check the handlers' types. */
export function defineHandlers<Own extends Handlers>(handlers: Own): Own {
  return handlers;
}
