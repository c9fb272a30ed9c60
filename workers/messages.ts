/** Types of all messages between the actors of the price stream, and between the main thread and the worker threads. */
import type { CreatedDatabase } from '../db/sqlite/migrate.ts';
import type { TickerSymbol } from './symbols.ts';

/** Address of an actor (a handler, a client's socket or the ticker) in the `PidRegistry`. Not the id of an OS process. */
export type Pid = string;

/** Internal messages, as specified, between the relay, the connection handlers and the ticker. */
export type LifecycleMessage =
  /** Sent by the relay to the handler of a new connection. The handler sends its replies to `client_pid`. */
  | { topic: 'ws.join'; client_pid: Pid }
  /** Sent by the relay to a connection's handler when the client sends a text message. */
  | { topic: 'ws.message'; data: string }
  /** Sent by the relay to a connection's handler when the connection has closed. */
  | { topic: 'ws.leave'; reason: string }
  | HandlerToTicker
  | WsSend;

/** Sent by a handler to the ticker, to subscribe or unsubscribe the handler's client. */
export type HandlerToTicker =
  | { topic: 'subscribe'; client_pid: Pid; handler_pid: Pid }
  | { topic: 'unsubscribe'; handler_pid: Pid };

/** Sent by a handler or the ticker to a client's pid. `data` (JSON text) is written to the client's socket as one frame. */
export interface WsSend {
  topic: 'ws.send';
  type: 'text';
  data: string;
}

/** `workerData` of the ticker thread. */
export interface TickerStart {
  intervalMs: number;
  symbols: readonly TickerSymbol[];
  /** Float64Array with the current price of each symbol. A restarted thread continues from these prices. */
  prices: SharedArrayBuffer;
  /** Seed of deterministic prices. If undefined, computed prices are random. */
  seed: string | undefined;
  /** Value of `PRICE_SOURCE`. If undefined, the prices are computed. */
  source: string | undefined;
  /** Float64Array of counters, indexed by {@link SourceCount}. */
  sourceCounts: SharedArrayBuffer;
  /**
   * Float64Array of one element: when the last tick was due or arrived from another node, in milliseconds since the
   * epoch.
   */
  lastDue: SharedArrayBuffer;
  /** Expiry of the lease that allows this node to generate ticks; see `TickFeed.lease`. Undefined on a single node. */
  lease: SharedArrayBuffer | undefined;
  /** Histogram of the ticker thread's event loop delays. */
  delays: Durations;
  /** Int32Array of one element. The thread increments it regularly, so that the main thread can detect a hung thread. */
  heartbeat: SharedArrayBuffer;
  /**
   * Current subscriptions, as pairs of handler pid and client pid. A restarted thread continues with these
   * subscriptions.
   */
  subscriptions: ReadonlyArray<readonly [handler: Pid, client: Pid]>;
}

/**
 * Histograms in shared memory. Each histogram is a Float64Array: one count per bucket, the count of durations above the
 * last bound, and the sum of all durations in seconds. Only one thread at a time may write to a histogram.
 */
export interface Durations {
  /** Upper bounds of the buckets in seconds, ascending. */
  bounds: readonly number[];
  /** Shared memory that contains the histograms one after another. */
  cells: SharedArrayBuffer;
}

/**
 * Tick from another node, sent to the ticker thread as JSON text. `due` is the arrival time in milliseconds since the
 * epoch.
 */
export interface RelayedTick {
  topic: 'tick';
  data: string;
  due: number;
}

/** Batch sent to the ticker thread: all messages from one event loop turn of the main thread, in order. */
export type MainToTicker = ReadonlyArray<HandlerToTicker | RelayedTick>;

/**
 * Message from the ticker thread: `ready` after startup, a snapshot for the subscribers in `to`, or a tick for all
 * subscribers. `due` is when the tick was scheduled or arrived from another node, in milliseconds since the epoch.
 * `prices` is set if this node made the tick.
 */
export type TickerToMain =
  | { topic: 'ready' }
  /** Sent when the price source's problem changes. `problem` is undefined once the source has recovered. */
  | { topic: 'source'; problem: string | undefined }
  | { to: readonly Pid[]; message: WsSend }
  | { to: typeof SUBSCRIBERS; message: WsSend; due: number; prices?: readonly number[] };

/** Value of `to` in {@link TickerToMain} that means all subscribers. */
export const SUBSCRIBERS = '*';

/** Indexes of `TickerStart.sourceCounts`. */
export const SourceCount = {
  /** Number of failed calls to the price source, plus errors that the source raised outside a call. */
  failed: 0,
  /** Number of ticks that became due while the price source had not answered an earlier call. */
  stalled: 1,
  /** Number of prices that were not positive numbers. An answer of the wrong type or length counts once per symbol. */
  refused: 2,
  count: 3,
} as const;

/**
 * Report of a one-shot thread. `reportId` distinguishes the report from messages sent by a user's module in that
 * thread.
 */
export interface OneShotReport {
  /** Random id from the thread's `workerData`. */
  reportId: string;
  report: unknown;
}

/** `workerData` of the thread that checks a price source. */
export interface PriceSourceCheckStart {
  /** Value of `PRICE_SOURCE`. */
  source: string;
  symbols: readonly TickerSymbol[];
}

/** Report of the thread that checks a price source. */
export type PriceSourceReport = { isUsable: true } | { failure: string };

/** A queued task, sent to a pool thread for processing. */
export interface TaskDelivery {
  /** Id of this delivery. Each redelivery of the same task has a new id. */
  delivery: number;
  /** JSON text of the queued task message (`id`, `action`, `data`, `created_at`). */
  body: string;
  /** Number of the task in the order of arrival, or null if unknown. A redelivery keeps the number. */
  sequence: number | null;
  /** Number of this attempt, from 1. */
  attempt: number;
}

/**
 * Deliveries that a pool thread processes in order. The thread replies with the outcomes of the deliveries that it has
 * started.
 */
export interface TaskBatch {
  tasks: readonly TaskDelivery[];
  /** Index of the batch's slot in the arrays of {@link PoolThreadData}. */
  slot: number;
}

export type TaskStoreLocation = { dataDir: string } | { databaseUrl: string };

/**
 * Message from the migration thread. `started`: the files or the server can be reached, so the migration steps begin. The
 * last message has the databases that were created, or the reason why the migration failed.
 */
export type MigrationReport = { started: true } | { created: CreatedDatabase[] } | { failure: string };

/** `workerData.handlers` of a pool thread that runs a handlers module. */
export interface HandlersStart {
  /** Path or package name of the module. */
  module: string;
  /** Time in milliseconds that a handler has to finish once its signal is aborted. */
  graceMs: number;
  /** Maximum size of an output as JSON text, in bytes. */
  maxOutputBytes: number;
  /** Name of the `BroadcastChannel` for {@link AbortRequest} messages. */
  abortChannel: string;
}

/** Reason for aborting a handler's signal, other than an exceeded time limit. */
export type AbortReason = 'shutdown' | 'cancelled';

/**
 * Broadcast to all pool threads. Aborts the signal of the handler that is processing `delivery`, or of all handlers.
 */
export interface AbortRequest {
  delivery: number | 'all';
  reason: AbortReason;
}

/** Part of `workerData` that all pool threads have. */
export interface PoolThreadData {
  /** Float64Array with one slot per batch. Each slot has the fields of {@link AttemptField}. */
  attempts: SharedArrayBuffer;
  /**
   * Int32Array with one element per slot: the number of tasks in the slot's batch that the thread has started. The
   * thread increments the element before each task. The main thread reclaims the remaining tasks by setting the element
   * to a number larger than the batch.
   */
  startedTasks: SharedArrayBuffer;
  /**
   * Int32Array with one element per slot: the index of the running task in the slot's batch. The value is -1 before the
   * first task, and the batch's length while rows are stored. To cancel the running task, the main thread sets the
   * element to {@link TERMINATED}, then terminates the thread. The thread stops if it reads this value.
   */
  runningTasks: SharedArrayBuffer;
  /** Durations of attempts, with one histogram per slot. */
  durations: Durations;
  /** Default time limit of an attempt in milliseconds. An action may have its own limit. */
  timeoutMs: number;
}

/** Value in `PoolThreadData.runningTasks` while a slot's thread is being terminated. Larger than any task index. */
export const TERMINATED = 2 ** 30;

/** `workerData` of the pool threads that store task rows. `writeLock` is the shared memory of their `WriteLock`. */
export type TaskWorkerStart = TaskStoreLocation & { writeLock: SharedArrayBuffer; handlers?: HandlersStart };

/**
 * Indexes of the fields in a slot of `PoolThreadData.attempts`. The thread writes the fields when an attempt starts.
 */
export const AttemptField = {
  /**
   * Monotonic time in milliseconds after which the main thread terminates the thread. 0 before the first attempt of the batch.
   * Written after all other fields.
   */
  deadline: 0,
  threadId: 1,
  /** Index of the running task in its batch, or the batch's length while rows are stored. */
  index: 2,
  /** Time limit of the attempt in milliseconds. */
  timeoutMs: 3,
  count: 4,
} as const;

/** `workerData` of the thread that deletes old task rows. */
export interface RetentionStart {
  dataDir: string;
  /** Number of newest rows to keep. 0 for no limit. */
  rows: number;
  /** Number of days to keep a row after its task has completed. 0 for no limit. */
  days: number;
  writeLock: SharedArrayBuffer;
}

/** Message to a pool thread: a batch, or a self-test, which a healthy thread answers with an empty array. */
export type MainToPool = TaskBatch | { selfTest: true };

/** Settlement by a handler that is still running: `ack` for done, `nack` for failed. */
export type Acknowledgement = 'ack' | 'nack';

/** Sent by a pool thread to the main thread when a handler settles its delivery while still running. */
export interface EarlySettlement {
  delivery: number;
  settled: Acknowledgement;
}

/** Progress of a task, as reported by its handler. */
export interface TaskProgress {
  /** Fraction done, from 0 to 1. */
  fraction: number;
  /** Note on the progress, at most 200 characters. */
  note?: string;
}

/** Sent by a pool thread to the main thread when a handler reports progress, at most ten times a second per delivery. */
export interface ProgressReport {
  delivery: number;
  progress: TaskProgress;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Sent by a pool thread to the main thread: a log line of a handlers module, at most 8 KiB. */
export interface HandlerLogLine {
  level: LogLevel;
  message: string;
  /** Additional fields, as the JSON text of an object. */
  fields?: string;
}

/** Messages from a pool thread, other than the outcomes of batches. */
export type PoolToMain = EarlySettlement | ProgressReport | { logLine: HandlerLogLine };

/**
 * Outcome of a delivery, sent by a pool thread. `settled` is set if the handler settled the delivery before the handler
 * ended.
 */
export type TaskOutcome =
  | { ended: 'returned'; settled?: Acknowledgement }
  /** `retryAfterMs` is the retry delay that the handler asked for. If undefined, the retry policy sets the delay. */
  | { ended: 'raised'; settled?: Acknowledgement; reason: string; permanent: boolean; retryAfterMs?: number }
  /** The handler threw after its signal had been aborted for an {@link AbortReason}. */
  | { ended: 'interrupted'; settled?: Acknowledgement; reason: string; suspect: false }
  /** The handler returned, but its row was not stored, because the database currently cannot store rows. */
  | { ended: 'unstored'; settled?: Acknowledgement; reason: string };
