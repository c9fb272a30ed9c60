/**
 * Every message that crosses between the relay, the handlers, the ticker and the pool's threads, named
 * by its direction. Topics and fields are those of the specification's table of internal messages.
 */
import type { CreatedDatabase } from '../db/migrate.ts';

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

/** What the ticker's thread is started with. */
export interface TickerStart {
  intervalMs: number;
  /** A Float64Array over shared memory, one price a symbol: a thread that follows a dead one goes on from it. */
  prices: SharedArrayBuffer;
  /** Makes the prices a function of it and of the tick's number, where there is one. */
  seed: string | undefined;
  /** A Float64Array of one cell in shared memory: when the last tick was due, in milliseconds since the epoch. */
  lastDue: SharedArrayBuffer;
  /**
   * Where one node ticks for many, a Float64Array of one cell in shared memory: until when it is this one, in milliseconds of the
   * monotonic clock.
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
 * How often something took how long, in shared memory: Float64Arrays one after the other, each with a count for the range up to
 * each bound (seconds, ascending), one for what is past them all, and the sum in seconds. One thread at a time writes to each.
 */
export interface Durations {
  bounds: readonly number[];
  cells: SharedArrayBuffer;
}

/** Main thread to ticker's thread: another node has ticked; its prices are in the shared memory already. */
export interface RelayedTick {
  topic: 'tick';
  /** JSON text of the update. */
  data: string;
  /** Time of the tick's arrival, in milliseconds since the epoch. */
  due: number;
}

/** Main thread to ticker's thread: what was said in one turn of the event loop, in its order. */
export type MainToTicker = ReadonlyArray<HandlerToTicker | RelayedTick>;

/**
 * Ticker's thread to main thread: a snapshot for some clients, or a tick for all subscribers. `due` is the time at which the tick was
 * due, or arrived from another node, in milliseconds since the epoch. `prices` are those of a tick that this node makes for others.
 */
export type TickerToMain =
  | { topic: 'ready' }
  | { to: readonly Pid[]; message: WsSend }
  | { to: typeof SUBSCRIBERS; message: WsSend; due: number; prices?: readonly number[] };

/** Stands for every subscriber in {@link TickerToMain}. */
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

/** Where the rows are: in files of a folder, or in a database of PostgreSQL. */
export type RowsPlace = { dataDir: string } | { databaseUrl: string };

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

/** What the thread that deletes old rows is started with. */
export interface RetentionStart {
  dataDir: string;
  /** How many rows are kept, the latest; and for how many days a row is kept. 0 stands for all, and for ever. */
  rows: number;
  days: number;
  /** That of the pool's threads ({@link PoolThreadData}), with whom it takes turns. */
  writeLock: SharedArrayBuffer;
}

/** Main thread to a pool thread: is anybody there? Answered with no outcome. */
export interface SelfTest {
  selfTest: true;
}

export type MainToPool = TaskBatch | SelfTest;

/** How a handler can settle its delivery by itself, before it ends. */
export type Settlement = 'ack' | 'nack';

/** Pool thread to main thread, while the handler still runs: the handler has settled its delivery. */
export interface EarlySettlement {
  delivery: number;
  settled: Settlement;
}

/** Pool thread to main thread: how a delivery ended. An envelope, since a thrown `null` would look like success. */
export type TaskOutcome =
  | { ended: 'returned'; settled?: Settlement }
  | { ended: 'raised'; settled?: Settlement; reason: string; permanent: boolean }
  /** The handler returned, but no row can be stored at present, this one or any other. */
  | { ended: 'unstored'; settled?: Settlement; reason: string };
