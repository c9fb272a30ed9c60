/** All messages between the relay, the handlers, the ticker and the threads. */
import type { CreatedDatabase } from '../db/sqlite/migrate.ts';

/** Address of a process: a handler, a client (one end of a socket), or the ticker. */
export type Pid = string;

/** Messages between the relay, the handlers and the ticker, as in the specification's table of internal messages. */
export type LifecycleMessage =
  /** Relay to handler: the connection is established; replies go to `client_pid`. */
  | { topic: 'ws.join'; client_pid: Pid }
  /** Relay to handler: the client sent a frame. */
  | { topic: 'ws.message'; data: string }
  /** Relay to handler: the connection is closed. */
  | { topic: 'ws.leave'; reason: string }
  | HandlerToTicker
  | WsSend;

/** Handler to ticker: add or remove a subscription. */
export type HandlerToTicker =
  | { topic: 'subscribe'; client_pid: Pid; handler_pid: Pid }
  | { topic: 'unsubscribe'; handler_pid: Pid };

/** Handler or ticker to a client's address: deliver a frame; `data` is a JSON text. */
export interface WsSend {
  topic: 'ws.send';
  type: 'text';
  data: string;
}

/** Worker data of the ticker's thread. */
export interface TickerStart {
  intervalMs: number;
  /** A Float64Array with one price a symbol. A restarted thread continues from them. */
  prices: SharedArrayBuffer;
  /** Seed of deterministic prices. Random prices if undefined. */
  seed: string | undefined;
  /** Due time of the last tick: a Float64Array of one cell, in milliseconds since the epoch. */
  lastDue: SharedArrayBuffer;
  /** Expiry of this node's lease as `TickFeed.lease`. Undefined if the node makes ticks for itself only. */
  lease: SharedArrayBuffer | undefined;
  /** Event loop delays. */
  delays: Durations;
  /** An Int32Array of one cell, which the thread increments as long as its event loop runs. */
  heartbeat: SharedArrayBuffer;
  /** Handler and client of each subscription that outlived an earlier thread. */
  subscriptions: ReadonlyArray<readonly [handler: Pid, client: Pid]>;
}

/**
 * Histograms in shared memory, each a Float64Array with one count a bucket, a count for durations above the last bound, and the sum in
 * seconds. Only one thread at a time may write to a histogram.
 */
export interface Durations {
  /** Upper bounds of the buckets in seconds, ascending. */
  bounds: readonly number[];
  /** The histograms' arrays, one after the other. */
  cells: SharedArrayBuffer;
}

/** Main thread to ticker's thread: a tick of another node, as JSON text, and its arrival in milliseconds since the epoch. */
export interface RelayedTick {
  topic: 'tick';
  data: string;
  due: number;
}

/** Main thread to ticker's thread: the messages of one event loop iteration, in order. */
export type MainToTicker = ReadonlyArray<HandlerToTicker | RelayedTick>;

/**
 * Ticker's thread to main thread: a snapshot for some clients, or a tick for all subscribers, with the time at which it was due or
 * arrived, in milliseconds since the epoch. A tick that this node makes for others has `prices`.
 */
export type TickerToMain =
  | { topic: 'ready' }
  | { to: readonly Pid[]; message: WsSend }
  | { to: typeof SUBSCRIBERS; message: WsSend; due: number; prices?: readonly number[] };

/** Recipient in {@link TickerToMain} that stands for all subscribers. */
export const SUBSCRIBERS = '*';

/** One delivery of a queued task to a pool thread. */
export interface TaskDelivery {
  /** Id of this delivery, not of the task: each redelivery has another. */
  delivery: number;
  /** JSON text of the queued task message (`id`, `action`, `data`, `created_at`). */
  body: string;
  /** The task's number in the order of arrival, or null if it has none. A redelivered task keeps its number. */
  sequence: number | null;
}

/** Deliveries for a pool thread to process in order. The reply holds the outcomes of those that were not reclaimed meanwhile. */
export interface TaskBatch {
  tasks: readonly TaskDelivery[];
  /** The batch's slot in the shared memory of {@link PoolThreadData}. */
  slot: number;
}

export type TaskStoreLocation = { dataDir: string } | { databaseUrl: string };

/** Result of the migration thread, sent once. */
export type MigrationReport = { created: CreatedDatabase[] } | { failure: string };

/** Worker data of every pool thread, in addition to the data of its handler. */
export interface PoolThreadData {
  /** A Float64Array with the {@link AttemptField}s of each slot. */
  attempts: SharedArrayBuffer;
  /**
   * An Int32Array with the number of started tasks of the batch in each slot. The thread increments it before each task. The main
   * thread reclaims the remaining tasks by setting a higher value.
   */
  startedTasks: SharedArrayBuffer;
  /** Durations of attempts, with one histogram per slot. */
  durations: Durations;
  /** An Int32Array of one cell: the id of the thread that holds the write lock, or 0. */
  writeLock: SharedArrayBuffer;
}

/** Fields that a thread records at the start of an attempt, as indexes within its slot. */
export const AttemptField = {
  /** Start time in milliseconds of the monotonic clock; 0 before the first attempt of the batch. */
  beganAt: 0,
  threadId: 1,
  /** The task's index in the batch, or the number of tasks while their rows are stored. */
  index: 2,
  count: 3,
} as const;

/** Worker data of the retention thread. */
export interface RetentionStart {
  dataDir: string;
  /** Number of newest rows to keep. 0 for no limit. */
  rows: number;
  /** Days after completion for which a row is kept. 0 for no limit. */
  days: number;
  writeLock: SharedArrayBuffer;
}

/** Main thread to a pool thread: a batch, or a request to which a working thread replies without outcomes. */
export type MainToPool = TaskBatch | { selfTest: true };

/** Settlement of a delivery by its handler, before the handler ends. */
export type Acknowledgement = 'ack' | 'nack';

/** Pool thread to main thread: a handler has settled its delivery and is still running. */
export interface EarlySettlement {
  delivery: number;
  settled: Acknowledgement;
}

/** Pool thread to main thread: outcome of a delivery. */
export type TaskOutcome =
  | { ended: 'returned'; settled?: Acknowledgement }
  | { ended: 'raised'; settled?: Acknowledgement; reason: string; permanent: boolean }
  /** The handler returned, but no rows can be stored at present. */
  | { ended: 'unstored'; settled?: Acknowledgement; reason: string };
