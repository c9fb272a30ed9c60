import type { CreatedDatabase } from '../db/sqlite/migrate.ts';
import type { TickerSymbol } from './symbols.ts';

/** Address of an actor (a handler, a client's socket or the ticker) in the `PidRegistry`. Not the id of an OS process. */
export type Pid = string;

export type LifecycleMessage =
  /** Sent to the handler of a new connection. The handler sends its replies to `client_pid`. */
  | { topic: 'ws.join'; client_pid: Pid }
  | { topic: 'ws.message'; data: string }
  | { topic: 'ws.leave'; reason: string }
  | HandlerToTicker
  | WsSend;

export type HandlerToTicker =
  | { topic: 'subscribe'; client_pid: Pid; handler_pid: Pid }
  | { topic: 'unsubscribe'; handler_pid: Pid };

/** Message to the actor of a client's socket, which sends `data` (JSON text) to the client as one frame. */
export interface WsSend {
  topic: 'ws.send';
  type: 'text';
  data: string;
}

/** `workerData` of the ticker thread. */
export interface TickerStart {
  intervalMs: number;
  symbols: readonly TickerSymbol[];
  /** Float64Array with the current price of each symbol, from which a restarted thread continues. */
  prices: SharedArrayBuffer;
  /** Seed of deterministic prices. If undefined, computed prices are random. */
  seed: string | undefined;
  /** Value of `PRICE_SOURCE`. If undefined, the prices are computed. */
  source: string | undefined;
  /** Float64Array of counters, indexed by {@link SourceCount}. */
  sourceCounts: SharedArrayBuffer;
  /** Float64Array of one element: due or arrival time of the last tick, in milliseconds since the epoch. */
  lastDue: SharedArrayBuffer;
  /** Float64Array of one element: end of this node's lease in monotonic milliseconds. Undefined on a single node. */
  lease: SharedArrayBuffer | undefined;
  delays: Durations;
  /** Int32Array of one element. The thread increments it regularly, so that the main thread can detect a hang. */
  heartbeat: SharedArrayBuffer;
  /** Subscriptions with which a restarted thread continues. */
  subscriptions: ReadonlyArray<readonly [handler: Pid, client: Pid]>;
}

/** Histograms in shared memory. Only one thread at a time may write to a histogram. */
export interface Durations {
  /** Upper bounds of the buckets in seconds, ascending. */
  bounds: readonly number[];
  cells: SharedArrayBuffer;
}

/** Tick of another node as JSON text. `due` is when this node received the tick, in milliseconds since the epoch. */
export interface RelayedTick {
  topic: 'tick';
  data: string;
  due: number;
}

/** All messages to the ticker thread from one event loop turn of the main thread, in order. */
export type MainToTicker = ReadonlyArray<HandlerToTicker | RelayedTick>;

/**
 * Message from the ticker thread. `due` is when the tick was due or arrived from another node, in milliseconds since
 * the epoch. `prices` is set if this node made the tick.
 */
export type TickerToMain =
  | { topic: 'ready' }
  /** `problem` is undefined once the price source has recovered. */
  | { topic: 'source'; problem: string | undefined }
  | { to: readonly Pid[]; message: WsSend }
  | { to: typeof SUBSCRIBERS; message: WsSend; due: number; prices?: readonly number[] };

/** Value of `to` in {@link TickerToMain} that means all subscribers. */
export const SUBSCRIBERS = '*';

/** Indexes of `TickerStart.sourceCounts`. */
export const SourceCount = {
  /** Number of failed calls to the price source, plus errors that the source raised outside a call. */
  failed: 0,
  /** Number of ticks that became due while a call of the price source was pending. */
  stalled: 1,
  /** Number of prices that were not positive numbers. A whole answer of the wrong type counts once per symbol. */
  refused: 2,
  count: 3,
} as const;

/** Report of a one-shot thread. `reportId` distinguishes reports from messages that a user's module sends. */
export interface OneShotReport {
  reportId: string;
  report: unknown;
}

export interface PriceSourceCheckStart {
  /** Value of `PRICE_SOURCE`. */
  source: string;
  symbols: readonly TickerSymbol[];
}

export type PriceSourceReport = { isUsable: true } | { failure: string };

export interface TaskDelivery {
  /** Each redelivery of a task has a new id. */
  delivery: number;
  /** JSON text of the task message (`id`, `action`, `data`, `created_at`). */
  body: string;
  /** Number of the task in order of acceptance by the queue, or null if unknown. Unchanged by a redelivery. */
  sequence: number | null;
  /** Number of this attempt, from 1. */
  attempt: number;
}

/** Deliveries that a pool thread processes in order. The reply has the outcomes of the deliveries that were started. */
export interface TaskBatch {
  tasks: readonly TaskDelivery[];
  /** Index of the batch's slot in the arrays of {@link PoolThreadData}. */
  slot: number;
  /** Whether the thread may poll for its next batch: batches are short, and no other thread runs one. */
  mayPoll: boolean;
}

export type TaskStoreLocation = { dataDir: string } | { databaseUrl: string };

/** `started` is sent when the migration steps begin. `failure` is the reason why the migration failed. */
export type MigrationReport = { started: true } | { created: CreatedDatabase[] } | { failure: string };

/** `workerData.handlers` of a pool thread that runs a handlers module. */
export interface HandlersStart {
  /** Path or package name of the handlers module. */
  module: string;
  /** Time in milliseconds that a handler has to finish once its signal is aborted. */
  graceMs: number;
  /** Maximum size of a handler's return value as JSON text, in bytes. */
  maxOutputBytes: number;
  /** Name of the `BroadcastChannel` for {@link AbortRequest} messages. */
  abortChannel: string;
}

/** Reason for aborting a handler's signal, other than an exceeded time limit. */
export type AbortReason = 'shutdown' | 'cancelled';

/** Broadcast to all pool threads. Aborts the handler that is processing `delivery`, or all handlers. */
export interface AbortRequest {
  delivery: number | 'all';
  reason: AbortReason;
}

export interface PoolThreadData {
  /** Float64Array with one slot per batch. Each slot has the fields of {@link AttemptField}. */
  attempts: SharedArrayBuffer;
  /**
   * Int32Array with one element per slot: the number of tasks that the thread has started in the slot's batch. The main
   * thread writes a number larger than the batch to keep the thread from starting any more of the tasks.
   */
  startedTasks: SharedArrayBuffer;
  /**
   * Int32Array with one element per slot: the index of the running task, -1 before the first task, the batch's length
   * while rows are stored, or {@link TERMINATED} if the thread must stop.
   */
  runningTasks: SharedArrayBuffer;
  /** Durations of attempts, with one histogram per slot of `attempts`. */
  durations: Durations;
  /** Default time limit of an attempt in milliseconds. An action may have its own limit. */
  timeoutMs: number;
}

/** Value in `PoolThreadData.runningTasks` while a thread is being terminated. Larger than any task index. */
export const TERMINATED = 2 ** 30;

/** `workerData` of the pool threads that store task rows. `writeLock` is the memory of their `WriteLock`. */
export type TaskWorkerStart = TaskStoreLocation & { writeLock: SharedArrayBuffer; handlers?: HandlersStart };

/** Indexes of the fields in a slot of `PoolThreadData.attempts`. */
export const AttemptField = {
  /** Monotonic time in milliseconds at which the thread is terminated; 0 before the first attempt. Written last. */
  deadline: 0,
  threadId: 1,
  /** Index of the running task in its batch, or the batch's length while rows are stored. */
  index: 2,
  timeoutMs: 3,
  count: 4,
} as const;

export interface RetentionStart {
  dataDir: string;
  /** Number of newest rows to keep. 0 for no limit. */
  rows: number;
  /** Number of days to keep a row after its task has completed. 0 for no limit. */
  days: number;
  writeLock: SharedArrayBuffer;
}

/** Message to a pool thread. A healthy thread answers a self-test with an empty array. */
export type MainToPool = TaskBatch | { selfTest: true };

export type Acknowledgement = 'ack' | 'nack';

/** Sent by a pool thread when a handler settles its delivery while still running. */
export interface EarlySettlement {
  delivery: number;
  settled: Acknowledgement;
}

export interface TaskProgress {
  /** Completed fraction of the task, from 0 to 1. */
  fraction: number;
  /** At most 200 characters. */
  note?: string;
}

/** Sent by a pool thread when a handler reports progress, at most ten times a second per delivery. */
export interface ProgressReport {
  delivery: number;
  progress: TaskProgress;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Log line of a handlers module, at most 8 KiB. */
export interface HandlerLogLine {
  level: LogLevel;
  message: string;
  /** Additional fields of the log line, as the JSON text of an object. */
  fields?: string;
}

/** Messages from a pool thread, other than the outcomes of batches. */
export type PoolToMain = EarlySettlement | ProgressReport | { logLine: HandlerLogLine };

/** Outcome of a delivery. `settled` is set if the handler settled the delivery while it was still running. */
export type TaskOutcome =
  | { ended: 'returned'; settled?: Acknowledgement }
  /** If `retryAfterMs` is undefined, the retry policy sets the delay. */
  | { ended: 'raised'; settled?: Acknowledgement; reason: string; permanent: boolean; retryAfterMs?: number }
  /** The handler threw after its signal had been aborted for an {@link AbortReason}. */
  | { ended: 'interrupted'; settled?: Acknowledgement; reason: string; suspect: false }
  /** The handler returned, but the database currently cannot store rows. */
  | { ended: 'unstored'; settled?: Acknowledgement; reason: string };
