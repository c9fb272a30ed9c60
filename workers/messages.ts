/**
 * Every message that crosses between the relay, the handlers, the ticker and the pool's threads, named
 * by its direction. Topics and fields are those of the specification's table of internal messages.
 */
import type { CreatedDatabase } from '../db/sqlite/migrate.ts';

/** Address of a process: a handler, a client (one end of a socket), or the ticker. */
export type Pid = string;

/** Relay to handler: the connection is established; replies go to `client_pid`. */
export interface WsJoin {
  topic: 'ws.join';
  client_pid: Pid;
}

/** Relay to handler: the client sent a frame; `data` is the client's JSON. */
export interface WsMessage {
  topic: 'ws.message';
  data: string;
}

/** Relay to handler: the connection is closed. */
export interface WsLeave {
  topic: 'ws.leave';
  reason: string;
}

/** Handler or ticker to a client's address: deliver a frame; `data` is a JSON text. */
export interface WsSend {
  topic: 'ws.send';
  type: 'text';
  data: string;
}

/** Handler to ticker: add a subscription. The ticker watches the handler and sends the client a snapshot. */
export interface Subscribe {
  topic: 'subscribe';
  client_pid: Pid;
  handler_pid: Pid;
}

/** Handler to ticker: remove a subscription. */
export interface Unsubscribe {
  topic: 'unsubscribe';
  handler_pid: Pid;
}

export type RelayToHandler = WsJoin | WsMessage | WsLeave;
export type HandlerToTicker = Subscribe | Unsubscribe;
export type LifecycleMessage = RelayToHandler | HandlerToTicker | WsSend;

/** Worker data of the ticker's thread. */
export interface TickerStart {
  intervalMs: number;
  /** Current prices: a Float64Array with one price a symbol. Shared, so that a restarted thread continues from them. */
  prices: SharedArrayBuffer;
  /** Seed of deterministic prices. Random prices if undefined. */
  seed: string | undefined;
  /** Due time of the last tick: a Float64Array of one cell, in milliseconds since the epoch. */
  lastDue: SharedArrayBuffer;
  /**
   * Expiry of this node's lease on making ticks: a Float64Array of one cell, in milliseconds of the monotonic clock. Undefined if
   * the node makes ticks for itself only.
   */
  lease: SharedArrayBuffer | undefined;
  /** Delays of the thread's event loop. */
  delays: Durations;
  /** An Int32Array of one cell, which the thread increments as long as its event loop runs. */
  heartbeat: SharedArrayBuffer;
  /** Handler and client of each subscription that outlived an earlier thread. */
  subscriptions: ReadonlyArray<readonly [handler: Pid, client: Pid]>;
}

/**
 * Histograms in shared memory. Each is a Float64Array with one count a bucket, a count for durations above the last bound, and the
 * sum in seconds. Only one thread at a time may write to a histogram.
 */
export interface Durations {
  /** Upper bounds of the buckets in seconds, ascending. */
  bounds: readonly number[];
  /** The histograms' arrays, one after the other. */
  cells: SharedArrayBuffer;
}

/** Main thread to ticker's thread: a tick of another node. Its prices are in the shared memory already. */
export interface RelayedTick {
  topic: 'tick';
  /** JSON text of the update. */
  data: string;
  /** Time of the tick's arrival, in milliseconds since the epoch. */
  due: number;
}

/** Main thread to ticker's thread: the messages of one event loop iteration, in order. */
export type MainToTicker = ReadonlyArray<HandlerToTicker | RelayedTick>;

/**
 * Ticker's thread to main thread: a snapshot for some clients, or a tick for all subscribers. `due` is the time at which the tick was
 * due, or arrived from another node, in milliseconds since the epoch. `prices` are those of a tick that this node makes for others.
 */
export type TickerToMain =
  | { topic: 'ready' }
  | { to: readonly Pid[]; message: WsSend }
  | { to: typeof SUBSCRIBERS; message: WsSend; due: number; prices?: readonly number[] };

/** Recipient in {@link TickerToMain} that stands for all subscribers. */
export const SUBSCRIBERS = '*';

/** One delivery of a queued task to a pool thread. */
export interface TaskDelivery {
  /** Identifies this delivery, not the task: a task that is delivered again has another. */
  delivery: number;
  /** JSON text of the queued task message (`id`, `action`, `data`, `created_at`). */
  body: string;
  /** The task's place in the order of arrival, where it has one; a task that is delivered again keeps it. */
  arrival: number | null;
}

/**
 * Main thread to a pool thread: deliveries to work off one after the other. Answered with the outcomes of those that were
 * not taken back meanwhile.
 */
export interface TaskBatch {
  tasks: readonly TaskDelivery[];
  /** Where the thread notes what it is at; see {@link PoolThreadData}. */
  slot: number;
}

/** Location of the stored rows: a folder with SQLite files, or a PostgreSQL database. */
export type TaskStoreLocation = { dataDir: string } | { databaseUrl: string };

/** Result of the migration thread, sent once. */
export type MigrationReport = { created: CreatedDatabase[] } | { failure: string };

/** What every pool thread is started with, beside what its handler needs. All of it is shared memory. */
export interface PoolThreadData {
  /** A Float64Array, {@link AttemptField} a slot. */
  attempts: SharedArrayBuffer;
  /**
   * An Int32Array, a cell a slot: how many tasks of the batch the thread has begun. It counts up by one before each; a batch
   * is over when that gives no task any more, because it had them all or because the main thread has set it far ahead.
   */
  begun: SharedArrayBuffer;
  /** How long handlers had an attempt, a distribution a slot. */
  runs: Durations;
  /** An Int32Array of one cell: the id of the thread whose turn it is to write, or 0. */
  writeLock: SharedArrayBuffer;
}

/** What a thread notes of the attempt that it begins; its place within the slot. */
export const AttemptField = {
  /** Milliseconds of the monotonic clock; 0 before the first attempt of the batch has begun. */
  beganAt: 0,
  threadId: 1,
  /** The task's place in the batch; the number of tasks while their rows are stored. */
  index: 2,
  count: 3,
} as const;

/** Worker data of the retention thread, which deletes old rows. */
export interface RetentionStart {
  dataDir: string;
  /** Number of newest rows to keep. 0 for no limit. */
  rows: number;
  /** Days after completion for which a row is kept. 0 for no limit. */
  days: number;
  /** Write lock shared with the pool's threads ({@link PoolThreadData}). */
  writeLock: SharedArrayBuffer;
}

/** Main thread to a pool thread: is anybody there? Answered with no outcome. */
export interface SelfTest {
  selfTest: true;
}

export type MainToPool = TaskBatch | SelfTest;

/** How a handler can settle its delivery itself, before it ends. */
export type Acknowledgement = 'ack' | 'nack';

/** Pool thread to main thread, while the handler still runs: the handler has settled its delivery. */
export interface EarlySettlement {
  delivery: number;
  settled: Acknowledgement;
}

/** Pool thread to main thread: how a delivery ended. An envelope, since a thrown `null` would look like success. */
export type TaskOutcome =
  | { ended: 'returned'; settled?: Acknowledgement }
  | { ended: 'raised'; settled?: Acknowledgement; reason: string; permanent: boolean }
  /** The handler returned, but no row can be stored at present, this one or any other. */
  | { ended: 'unstored'; settled?: Acknowledgement; reason: string };
