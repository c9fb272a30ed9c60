/** Types of all messages between the actors of the price stream, and between the main thread and the worker threads. */
import type { CreatedDatabase } from '../db/sqlite/migrate.ts';
import type { TickerSymbol } from './symbols.ts';

/** Address of an actor (a handler, a client's socket or the ticker) in the `PidRegistry`. Not the id of an OS process. */
export type Pid = string;

/** The specification's internal messages between the relay (which owns the client sockets), the handlers and the ticker. */
export type LifecycleMessage =
  /** Sent by the relay to the handler of a new connection. The handler sends its replies to `client_pid`. */
  | { topic: 'ws.join'; client_pid: Pid }
  /** Sent by the relay to the handler of a connection when the client has sent a text message. */
  | { topic: 'ws.message'; data: string }
  /** Sent by the relay to the handler of a connection when the connection has closed. */
  | { topic: 'ws.leave'; reason: string }
  | HandlerToTicker
  | WsSend;

/** Sent by a handler to the ticker, to add or remove the subscription of the handler's client. */
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
  /** Seed from which deterministic prices are computed. If undefined, computed prices are random. */
  seed: string | undefined;
  /** Value of `PRICE_SOURCE`. If undefined, the prices are computed. */
  source: string | undefined;
  /** Float64Array with one counter per index in {@link SourceCount}. */
  sourceCounts: SharedArrayBuffer;
  /** Time in milliseconds since the epoch at which the last tick was due, or arrived from another node. Float64Array of one element. */
  lastDue: SharedArrayBuffer;
  /** Expiry of the lease that allows this node to generate ticks; see `TickFeed.lease`. Undefined on a single node. */
  lease: SharedArrayBuffer | undefined;
  /** Histogram of the delays of the thread's event loop. */
  delays: Durations;
  /** Int32Array of one element. The thread increments it regularly, so that the main thread can detect a hung thread. */
  heartbeat: SharedArrayBuffer;
  /** Subscriptions for a restarted thread to take over, as pairs of handler pid and client pid. */
  subscriptions: ReadonlyArray<readonly [handler: Pid, client: Pid]>;
}

/**
 * Histograms in shared memory. Each is a Float64Array with one count per bucket, the count of durations above the last bound, and the
 * sum of all durations in seconds. Only one thread at a time may write to a histogram.
 */
export interface Durations {
  /** Upper bounds of the buckets in seconds, ascending. */
  bounds: readonly number[];
  /** Memory of the histograms, which follow one another without gaps. */
  cells: SharedArrayBuffer;
}

/** Sent to the ticker thread: a tick from another node, as JSON text. `due` is its arrival time in milliseconds since the epoch. */
export interface RelayedTick {
  topic: 'tick';
  data: string;
  due: number;
}

/** Sent to the ticker thread: all messages from one event loop turn of the main thread, in order. */
export type MainToTicker = ReadonlyArray<HandlerToTicker | RelayedTick>;

/**
 * Sent by the ticker thread: `ready` once it has started, a snapshot for the subscribers in `to`, or a tick for all. `due` is when the
 * tick was scheduled or arrived from another node, in milliseconds since the epoch. `prices` is present if other nodes need the tick.
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
  /** Number of calls to the source that threw or rejected, plus errors that it raised outside a call. */
  failed: 0,
  /** Ticks that came due while a call of the source from an earlier tick was still pending. */
  stalled: 1,
  /** Prices that were not positive numbers. An answer that is not an array of the right length counts once per symbol. */
  refused: 2,
  count: 3,
} as const;

/** Report of a one-shot thread. The id distinguishes the report from messages that a user's module in the same thread sends. */
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

/** A queued task as sent to a pool thread, which runs the task's handler. */
export interface TaskDelivery {
  /** Id of this delivery. Each redelivery of the same task has a new id. */
  delivery: number;
  /** JSON text of the queued task message (`id`, `action`, `data`, `created_at`). */
  body: string;
  /** The task's number in order of arrival, or null if it has none. A redelivered task keeps its number. */
  sequence: number | null;
  /** Number of this attempt, from 1. */
  attempt: number;
}

/** Deliveries that a pool thread processes in order. The thread replies with the outcome of each delivery that was not reclaimed. */
export interface TaskBatch {
  tasks: readonly TaskDelivery[];
  /** Index of the batch's slot in the shared memory of {@link PoolThreadData}. */
  slot: number;
}

export type TaskStoreLocation = { dataDir: string } | { databaseUrl: string };

/** Only message from the migration thread: the databases that it created, or the reason why it failed. */
export type MigrationReport = { created: CreatedDatabase[] } | { failure: string };

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

/** Reason, other than the time limit, to abort the signal of a running handler. */
export type AbortReason = 'shutdown' | 'cancelled';

/** Sent by the main thread to all pool threads. Aborts the signal of the handler that is processing `delivery`, or of all handlers. */
export interface AbortRequest {
  delivery: number | 'all';
  reason: AbortReason;
}

/** `workerData` of every pool thread, in addition to the fields that its task handler needs. */
export interface PoolThreadData {
  /** Float64Array with one slot per batch. A slot has an element for each {@link AttemptField}. */
  attempts: SharedArrayBuffer;
  /**
   * Int32Array with one element per slot: the number of tasks in the slot's batch that the thread has started. The thread increments the
   * element before each task. To reclaim the remaining tasks, the main thread sets it to a number above the length of the batch.
   */
  startedTasks: SharedArrayBuffer;
  /**
   * Int32Array with one element per slot: the index of the running task in the slot's batch. -1 before the first task, and the number of
   * tasks while the thread stores their rows. Before the main thread terminates the thread of a cancelled task, it sets the element to
   * {@link TERMINATED}. The thread then runs and stores nothing more.
   */
  runningTasks: SharedArrayBuffer;
  /** Durations of attempts (runs of the task handler), with one histogram per slot. */
  durations: Durations;
  /** Default time limit of an attempt in milliseconds, for actions without their own. */
  timeoutMs: number;
}

/** Value in `PoolThreadData.runningTasks` of a slot whose thread is being terminated. Larger than any batch. */
export const TERMINATED = 2 ** 30;

/** `workerData` of the pool threads that store task rows. `writeLock` is the shared memory of their `WriteLock`. */
export type TaskWorkerStart = TaskStoreLocation & { writeLock: SharedArrayBuffer; handlers?: HandlersStart };

/** Indexes, within a slot of `PoolThreadData.attempts`, of the values that a thread records at the start of an attempt. */
export const AttemptField = {
  /**
   * Monotonic time in milliseconds after which the main thread terminates the thread. 0 before the first attempt of the batch.
   * Written after all other fields.
   */
  deadline: 0,
  threadId: 1,
  /** Index of the running task in its batch, or the number of tasks in the batch while the thread stores their rows. */
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
  /** Number of days for which a row is kept after its task has completed. 0 for no limit. */
  days: number;
  writeLock: SharedArrayBuffer;
}

/** Sent by the main thread to a pool thread: a batch, or a self-test, which a healthy thread answers with an empty array. */
export type MainToPool = TaskBatch | { selfTest: true };

/** How a handler settles its delivery while it is still running: `ack` for done, `nack` for failed. */
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
  /** At most 200 characters. */
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
  /** Additional fields, as JSON text of an object. */
  fields?: string;
}

/** Messages from a pool thread, other than the outcomes of batches. */
export type PoolToMain = EarlySettlement | ProgressReport | { logLine: HandlerLogLine };

/** Sent by a pool thread: how the handler of a delivery ended. `settled` is set if the handler had already settled the delivery. */
export type TaskOutcome =
  | { ended: 'returned'; settled?: Acknowledgement }
  /** `retryAfterMs` is the delay that the handler asks for. If absent, the retry policy decides. */
  | { ended: 'raised'; settled?: Acknowledgement; reason: string; permanent: boolean; retryAfterMs?: number }
  /** The handler threw after its signal had been aborted for an {@link AbortReason}. */
  | { ended: 'interrupted'; settled?: Acknowledgement; reason: string; suspect: false }
  /** The handler returned, but its row was not stored, because the database cannot currently store any rows. */
  | { ended: 'unstored'; settled?: Acknowledgement; reason: string };
