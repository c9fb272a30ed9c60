import type { ActionLimits, Delivery, TaskProgress } from '../../db/task-store.ts';
import type { AttemptFailure } from '../shared/thrown.ts';
import type { ModuleSources } from '../shared/user-module.ts';
import type { Backoff } from './handlers-api.ts';

/** Settings of an action in the handlers module, as plain data. */
export interface ActionSettings {
  /** Text of the handler's function. */
  text?: string;
  schema?: object;
  timeoutMs?: number;
  maxAttempts?: number;
  backoff?: Partial<Backoff>;
  /** Set if the action must have its thread to itself. */
  overlap?: false;
  limits?: ActionLimits;
  /** Where the ends of its tasks are reported, unless a submission has its own URL. */
  callback?: string;
}

/** Settings of each action in the handlers module. The main thread never imports the module. */
export type HandlersManifest = ReadonlyMap<string, ActionSettings>;

export interface HandlersModule {
  actions: HandlersManifest;
  /** Schedules by name, unchecked. */
  schedules: Readonly<Record<string, unknown>>;
}

export interface SubmissionRules {
  actions: HandlersManifest;
  /** Whether to refuse a task whose action is neither in `actions` nor built-in. */
  rejectUnknown: boolean;
}

export interface TaskThreadStart {
  /** Path or package name of the handlers module. Undefined if only built-in actions run. */
  module: string | undefined;
  /** Whether a task fails whose action has no handler, as after a change of the module. */
  rejectUnknown: boolean;
  /** Files from which the module is loaded instead of the disk. Undefined unless it is watched. */
  sources: ModuleSources | undefined;
  /** Maximum size of a handler's return value as JSON text, in bytes. */
  maxOutputBytes: number;
  /** Name of the `BroadcastChannel` for {@link AbortRequest} messages. */
  abortChannel: string;
  overlap: number;
  memoryMb: number;
}

/** First message to the child process of a task thread. */
export interface TaskProcessStart extends TaskThreadStart {
  loadDelayMs: number;
}

export type ToTaskProcess = Exclude<ToTaskThread, { selfTest: true }> | { abort: AbortRequest };

export type FromTaskProcess =
  | { isLoaded: true }
  | { run: number; answer: TaskAnswer }
  | { message: FromTaskThread }
  /** Reason for the end of the process's thread. The process ends. */
  | { threadEnd: string };

/** Message to a task thread. `run` is a number, unique in its pool. A self-test has no answer but the end of the call. */
export type ToTaskThread = ({ run: number } & Pick<Delivery, 'body' | 'attempt' | 'traceparent'>) | { selfTest: true };

export type HandlerOutcome =
  /** `output` is the JSON text of the return value. */
  | { ended: 'returned'; output: string }
  | ({ ended: 'raised' } & AttemptFailure)
  /** The handler did not start, or threw after its signal had been aborted. The attempt is not charged. */
  | { ended: 'released'; reason: string };

export type Acknowledgement = 'ack' | 'nack';

export interface TaskAnswer {
  outcome: HandlerOutcome;
  ms: number;
  acknowledged?: Acknowledgement;
  progress?: TaskProgress;
}

/** Broadcast to all task threads. Aborts the signal of one run, or of all running and later runs. */
export type AbortRequest =
  | { run: 'all'; reason: 'shutdown' }
  | { run: number; reason: 'cancelled' }
  | { run: number; reason: 'timeout'; limitMs: number };

/** Messages of a task thread that runs a handlers module. The answer to a run may arrive earlier than its messages. */
export type FromTaskThread =
  | { run: number; started: true }
  /** Sent when a handler settles its task while it runs. */
  | { run: number; acknowledged: Acknowledgement }
  /** Sent at most ten times a second for each run. */
  | { run: number; progress: TaskProgress }
  | { logLine: HandlerLogLine };

export const MAX_NOTE = 200;

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface HandlerLogLine {
  level: LogLevel;
  message: string;
  /** Additional fields of the log line, as the JSON text of an object. */
  fields?: string;
}

/** Maximum size of a log line's message, and of the line's fields as JSON text. */
export const MAX_LOG_PART_BYTES = 4 * 1024;
