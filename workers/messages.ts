/** Types of all messages between the actors of the price stream, and between the main thread and the worker threads. */
import type { CreatedDatabase } from '../db/sqlite/migrate.ts';

/** Address of an actor in the `PidRegistry`, not of an OS process: a handler, a client's socket, or the ticker. */
export type Pid = string;

/** Internal messages of the specification, between the relay (which owns the client sockets), the handlers and the ticker. */
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

/** Sent by a handler or the ticker to a client's pid, to write `data`, a JSON text, to the client's socket as one frame. */
export interface WsSend {
  topic: 'ws.send';
  type: 'text';
  data: string;
}

/** `workerData` with which the main thread starts the ticker thread. */
export interface TickerStart {
  intervalMs: number;
  /** Float64Array with the current price of each symbol. A restarted thread continues from these prices. */
  prices: SharedArrayBuffer;
  /** Seed from which deterministic prices are computed. If undefined, the prices are random. */
  seed: string | undefined;
  /** Float64Array of one element: when the last tick was due, or arrived from another node, in milliseconds since the epoch. */
  lastDue: SharedArrayBuffer;
  /** Expiry of the node's lease, which allows it to make ticks; see `TickFeed.lease`. Undefined on a single node. */
  lease: SharedArrayBuffer | undefined;
  /** One histogram, in which the thread records the delays of its event loop. */
  delays: Durations;
  /** Int32Array of one element. The thread increments it regularly, so that the main thread can detect a hung thread. */
  heartbeat: SharedArrayBuffer;
  /** Subscriptions that a restarted thread takes over, as pairs of the pids of handler and client. */
  subscriptions: ReadonlyArray<readonly [handler: Pid, client: Pid]>;
}

/**
 * Histograms in shared memory. Each is a Float64Array with one count per bucket, the count of durations above the last bound, and the
 * sum of all durations in seconds. Only one thread at a time may write to a histogram.
 */
export interface Durations {
  /** Upper bounds of the buckets in seconds, ascending. */
  bounds: readonly number[];
  /** Memory of the histograms, one directly after the other. */
  cells: SharedArrayBuffer;
}

/** Sent to the ticker thread: a tick of another node as JSON text. `due` is its arrival time in milliseconds since the epoch. */
export interface RelayedTick {
  topic: 'tick';
  data: string;
  due: number;
}

/** Sent to the ticker thread: all messages of one event loop turn of the main thread, in order. */
export type MainToTicker = ReadonlyArray<HandlerToTicker | RelayedTick>;

/**
 * Sent by the ticker thread: `ready` after its start, a snapshot for new subscribers (`to`), or a tick for all. `due` is when the tick
 * was due or arrived, in milliseconds since the epoch. `prices` is present if the tick must be published to other nodes.
 */
export type TickerToMain =
  | { topic: 'ready' }
  | { to: readonly Pid[]; message: WsSend }
  | { to: typeof SUBSCRIBERS; message: WsSend; due: number; prices?: readonly number[] };

/** Value of `to` in {@link TickerToMain} that stands for all subscribers. */
export const SUBSCRIBERS = '*';

/** A queued task as sent to a pool thread, which runs the task's handler. */
export interface TaskDelivery {
  /** Id of this delivery. Each redelivery of the same task has a new id. */
  delivery: number;
  /** JSON text of the queued task message (`id`, `action`, `data`, `created_at`). */
  body: string;
  /** Number of the task in the order of arrival, or null if it has none. A redelivered task keeps its number. */
  sequence: number | null;
}

/** Deliveries that a pool thread processes in order. It replies with the outcomes of all that the main thread did not reclaim. */
export interface TaskBatch {
  tasks: readonly TaskDelivery[];
  /** Index of the batch's slot in the shared memory of {@link PoolThreadData}. */
  slot: number;
}

export type TaskStoreLocation = { dataDir: string } | { databaseUrl: string };

/** Only message of the migration thread: the databases that it created, or the reason of its failure. */
export type MigrationReport = { created: CreatedDatabase[] } | { failure: string };

/** `workerData` of every pool thread, in addition to the fields that its task handler needs. */
export interface PoolThreadData {
  /** Float64Array with one slot per batch. A slot has an element for each {@link AttemptField}. */
  attempts: SharedArrayBuffer;
  /**
   * Int32Array with the number of started tasks of the batch in each slot. The thread increments the number before each task. To
   * reclaim the tasks that the thread has not started, the main thread sets a number above the length of the batch.
   */
  startedTasks: SharedArrayBuffer;
  /** Durations of attempts (runs of the task handler), with one histogram per slot. */
  durations: Durations;
  /** Int32Array of one element: the id of the thread that holds the write lock, or 0 if the lock is free. */
  writeLock: SharedArrayBuffer;
}

/** Indexes, within a slot of `PoolThreadData.attempts`, of the values that a thread records at the start of an attempt. */
export const AttemptField = {
  /** Start time of the attempt in milliseconds of the monotonic clock. 0 before the first attempt of the batch. */
  beganAt: 0,
  threadId: 1,
  /** Index of the running task in its batch, or the number of tasks in the batch while the thread stores their rows. */
  index: 2,
  count: 3,
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

/** Sent by the main thread to a pool thread: a batch, or a self-test, to which a working thread replies with an empty array. */
export type MainToPool = TaskBatch | { selfTest: true };

/** How a handler settles its delivery while it is still running: `ack` for done, `nack` for failed. */
export type Acknowledgement = 'ack' | 'nack';

/** Sent by a pool thread to the main thread when a handler settles its delivery and is still running. */
export interface EarlySettlement {
  delivery: number;
  settled: Acknowledgement;
}

/** How the handler of a delivery ended, with `settled` if it had settled the delivery before. Sent by the pool thread. */
export type TaskOutcome =
  | { ended: 'returned'; settled?: Acknowledgement }
  | { ended: 'raised'; settled?: Acknowledgement; reason: string; permanent: boolean }
  /** The handler returned, but its row was not stored, because the database can store no rows at present. */
  | { ended: 'unstored'; settled?: Acknowledgement; reason: string };
