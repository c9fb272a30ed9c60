import type { AttemptHistory } from './attempt-history.ts';
import type { Schedules } from './schedules.ts';
import type {
  Awaitable,
  DetailedRow,
  Found,
  Located,
  Message,
  MessageState,
  Position,
  SearchFilter,
  SearchPage,
  TaskRows,
} from './task-rows.ts';

export type { Awaitable, Located, Message, MessageState };

/** Ids of the stored histories: that of the queue, and that of the prices. */
export const HISTORIES = { queue: 1, prices: 2 } as const;
type HistoryId = (typeof HISTORIES)[keyof typeof HISTORIES];

/**
 * Storage of the task queue: messages, result rows, dead letters, idempotency keys, schedules and the pause. `db/sqlite` and
 * `db/postgres` implement it with the same tables and pass the same conformance suite. Times are milliseconds since the
 * epoch unless named otherwise.
 *
 * @throws {DatabaseUnavailable} from any method if the file or server cannot be used
 */
export interface TaskStore {
  readonly reads: TaskReads;
  readonly schedules: Schedules;
  /** Whether several nodes share this store. */
  readonly isShared: boolean;
  /** Whether accepted messages survive if the process is killed. */
  readonly isDurable: boolean;
  /**
   * Called once, before the first `take`, when nothing else in the start can fail. Until then, a start that fails changes
   * nothing that was saved.
   *
   * @returns the tasks that were dead-lettered at the open, because their processes died again and again
   */
  start(): Awaitable<readonly TaskSubject[]>;
  /**
   * Accepts a message once per idempotency key.
   *
   * @param onAccepted called once the message can be taken, which may be before it is on disk
   * @returns the id of the accepted task, and false as `isNew` if an earlier submission with the key was accepted
   * @throws {QueueFull | KeyReused}
   */
  publish(message: Message, key?: IdempotencyKey, onAccepted?: () => void): Promise<Published>;
  /**
   * Accepts all messages in one transaction, each once per idempotency key, or none.
   *
   * @param onAccepted called with the new messages once they can be taken, which may be before they are on disk
   * @returns the ids of the accepted tasks in order. If keys were used for different submissions, their errors in their
   *   places, and nothing was accepted
   * @throws {QueueFull}
   */
  publishAll(
    submissions: readonly Submission[],
    onAccepted?: (messages: readonly Message[]) => void,
  ): Promise<readonly (Published | KeyReused)[]>;
  /**
   * Takes up to `max` messages that are due, and records this process as their owner: by priority, then one of each limit
   * key in turn, and those of one key in the order in which they became due. One of ten is the message that has waited
   * longest, whatever its priority and key, so that none waits forever. Returns none while the queue is paused. A suspect
   * is taken only if `isIdle`, and then alone: when nothing else is due, or every ten seconds, for which the window is
   * drained. While it is in flight, nothing else is taken.
   *
   * @param isIdle whether this process runs no handler and has no settlement to write
   */
  take(max: number, isIdle: boolean): Awaitable<Taken>;
  /** Takes up to `max` callbacks that are due, so that they need not wait for a place in the window. */
  takeCallbacks(max: number): Awaitable<Taken>;
  /**
   * Writes settlements in one transaction. A settlement of a delivery that is no longer current changes nothing.
   *
   * @throws {ValueRefused} if a value is the reason, so that only one of the settlements is to blame
   */
  settle(settled: readonly Settled[]): Awaitable<SettleResult>;
  /**
   * Makes a task due that is scheduled or retrying. Returns undefined if the task is unknown.
   *
   * @param onDue called once the message can be taken, which may be before the change is on disk
   */
  runNow(id: string, onDue?: (task: TaskSubject) => void): Promise<RunNow | undefined>;
  /** Cancels a task. Returns undefined if the task is unknown. */
  cancel(id: string): Promise<Cancellation | undefined>;
  /** Returns those ids of running tasks whose cancellation was requested. */
  cancelRequests(ids: readonly string[]): Awaitable<readonly string[]>;
  /**
   * Stores when attempts started and what progress they report, for the limits of their actions and so that other nodes
   * can show it.
   */
  report(running: readonly Report[]): Awaitable<void>;
  /** Sets the listener that is called after each commit that recovers messages of a dead node. */
  onRecovered?(listener: (recovery: Recovery) => void): void;
  /** Returns the limits of all actions that have some. */
  limits(): Awaitable<readonly StoredLimits[]>;
  /**
   * Sets the limits of an action, or removes them. No message is taken beyond them from then on.
   *
   * @param onSet called once they hold, which may be before they are on disk
   */
  setLimits(action: string, limits: ActionLimits | undefined, source: LimitSource, onSet?: () => void): Promise<void>;
  /** Returns the limit of an action, or of one of its keys, with its use. */
  limitOf(action: string, limitKey?: string): Awaitable<UsedLimit>;
  isPaused(): Awaitable<boolean>;
  /** @param at time of a new pause. A queue that is paused already keeps its time */
  setPaused(isPaused: boolean, at?: number): Promise<void>;
  /**
   * Requeues the dead letters with these positions, in this order, until the queue is full, with their attempts reset.
   *
   * @param onRequeued called with each slice once its messages can be taken, which may be before they are on disk
   * @param pace makes the messages scheduled, due one after another. By default, all are due at once
   */
  redrive(
    arrivals: readonly number[],
    onRequeued?: (tasks: readonly TaskSubject[]) => void,
    pace?: Pace,
  ): Promise<BulkResult>;
  /** Deletes dead letters. */
  purge(arrivals: readonly number[]): Promise<BulkResult>;
  saveHistory(id: HistoryId, text: string): Awaitable<void>;
  /** Returns true counts, without reading messages. */
  counts(): Awaitable<QueueCounts>;
  /** Deletes a few old rows, in a short transaction. Returns whether a further call may delete more. */
  deleteOldRows(limits: RetentionLimits): Promise<boolean>;
  /** Returns the reason why writes fail, or undefined when healthy. */
  problem(): string | undefined;
  /** Closes the store. Returns whether unfinished messages are kept for the next start or for other nodes. */
  close(): Promise<boolean>;
}

/** Reads of a store that depend on nothing but its tables. Both stores make them by the same statements. */
export interface TaskReads {
  readonly rows: TaskRows;
  /**
   * Returns up to `limit` unfinished or failed tasks that match, after a position, in the order of `searchMessages`. Fewer do
   * not mean that there are no more, because the number of messages that are read has a bound.
   */
  search(filter: SearchFilter, after: Position | undefined, limit: number): Awaitable<SearchPage>;
  /** Like `search`, of dead letters, with the reasons of the failures. */
  failures(filter: SearchFilter, after: Position | undefined, limit: number): Awaitable<SearchPage<FoundFailure>>;
  /** Counts unfinished tasks and dead letters by action and state, in a slice after a position. */
  countActions(after: Position | undefined): Awaitable<SearchPage<ActionCount>>;
  /** Returns a task's message, or its row if it has no message. */
  find(id: string): Awaitable<FoundTask | undefined>;
  /** Returns the messages with these ids, in this order, with bodies cut to `bodyLength` characters. */
  read(ids: readonly string[], bodyLength?: number): Awaitable<readonly StoredMessage[]>;
  /** Returns when the queue was paused, in milliseconds since the epoch, if it is paused. */
  pausedAt(): Awaitable<number | undefined>;
  /** Returns the JSON text that `saveHistory` stored last. */
  readHistory(id: HistoryId): Awaitable<string | undefined>;
}

/*
 * The types of a task: a `Message` when it is submitted, a `Delivery` when it is taken, a `StoredMessage` when it is
 * shown, a `TaskRow` when it is completed (`DetailedRow` with its attempts, `TaskSummary` if its texts are cut), a
 * `TaskContext` for its handler (workers/tasks/handlers-api.ts), and a `TaskEvent` for those who follow it
 * (main/tasks/task-events.ts).
 */

export interface IdempotencyKey {
  key: string;
  /** Hash of the submission's content, which detects that a key is used for a different submission. */
  fingerprint: string;
}

export interface Submission {
  message: Message;
  key: IdempotencyKey | undefined;
}

export interface Published {
  id: string;
  isNew: boolean;
}

/** A message that was taken and is not settled. `arrival` and `delivery` identify it; a later take has another `delivery`. */
export interface Delivery extends Message {
  /** Position in the order of acceptance. */
  readonly arrival: number;
  /** Number of times that the message was taken. */
  readonly delivery: number;
  /** When the message became due. */
  readonly dueAt: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Number of attempts that ended with the death of the thread. */
  readonly crashes: number;
  /** Whether two processes died while the message was in flight. */
  readonly isSuspect: boolean;
  /** Id of the task whose end the message reports. Undefined unless the message is a callback. */
  readonly callbackOf?: string | undefined;
  /** Whether its action has limits of the starts, so that its start must be reported at once. */
  readonly isRated: boolean;
  readonly history: AttemptHistory;
}

export interface Taken {
  deliveries: Delivery[];
  /** When to take again, because a message becomes due. Undefined if there is none, or if more may be due now. */
  nextRunAt: number | undefined;
}

export type Settlement =
  /** Completed: the row is written and the message deleted. `result` is the JSON text `{"output": …}`. */
  | { kind: 'complete'; result: string }
  /** Done before its handler returned: the message is deleted. A `row` follows when the handler returns. */
  | { kind: 'ack' }
  /** The row of a message that was acked before. Written without a fence, because no other run can exist any more. */
  | { kind: 'row'; result: string }
  /** Failed: the attempt is charged, and the message is due again at `runAt`. */
  | { kind: 'retry'; runAt: number; reason: string; stack?: string; failure: Failure }
  /** Failed for good: the attempt is charged, and the message becomes a dead letter. */
  | { kind: 'discard'; reason: string; stack?: string; failure: Failure }
  /** Not processed: the message is waiting again, in its place, and no attempt is charged. */
  | { kind: 'release' }
  /** Cancelled: the message is deleted, and no row is written. */
  | { kind: 'cancel' };

export type SettlementOf<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>;

/** A `transient` error may not recur on the next attempt. A `crash` is the death of the thread. */
export type Failure = 'transient' | 'permanent' | 'crash';

export interface Settled {
  delivery: Delivery;
  settlement: Settlement;
  /** Start of the attempt. Undefined if unknown. */
  startedAt?: number | undefined;
  /** When the outcome of the attempt arrived. Undefined for when the settlement is written. */
  endedAt?: number | undefined;
}

/**
 * Effect of a settlement: `late` if the delivery was no longer current, `cancelled` if a retry or release deleted the
 * message because its cancellation had been requested.
 */
export type Effect = 'applied' | 'cancelled' | 'late';

export interface SettleResult {
  effects: readonly Effect[];
  /** Dead letters that were evicted because of a bound. */
  evicted: readonly TaskSubject[];
}

/** A task of which events tell. */
export type TaskSubject = Pick<Message, 'id' | 'action' | 'limitKey' | 'submitter'>;

/** Returns the subject of a stored message. An empty text stands for none. */
export function subjectOf(message: {
  id: string;
  action?: string | null | undefined;
  limit_key: string | null;
  submitter: string | null;
}): TaskSubject {
  const { id, action, limit_key: limitKey, submitter } = message;
  return { id, action: action ?? undefined, ...(limitKey && { limitKey }), ...(submitter && { submitter }) };
}

/** Effects of the recovery of messages whose node has died. */
export interface Recovery {
  /** Tasks that were dead-lettered, because their processes died again and again. */
  failed: readonly (TaskSubject & { attempts: number; reason: string })[];
  /** Tasks whose cancellation had been requested. */
  cancelled: readonly TaskSubject[];
  evicted: readonly TaskSubject[];
}

/** `due` if the message waits now, `ended` if the task is completed or dead-lettered. */
export type RunNow = 'due' | 'running' | 'ended';

export interface Cancellation extends Omit<TaskSubject, 'id'> {
  /**
   * `cancelled` if the message was deleted, `requested` if it is running and the request is recorded, `ended` if the task
   * is completed or dead-lettered.
   */
  outcome: 'cancelled' | 'requested' | 'ended';
}

export interface Report {
  delivery: Delivery;
  startedAt: number;
  progress: TaskProgress | undefined;
}

export interface TaskProgress {
  /** Completed fraction of the task, from 0 to 1. */
  fraction: number;
  /** At most 200 characters. */
  note?: string;
}

/** Limit of how many tasks run at once, and of how many start in any period of `rate.ms`. */
export interface Limit {
  readonly concurrency?: number | undefined;
  readonly rate?: { readonly count: number; readonly ms: number } | undefined;
}

export interface ActionLimits extends Limit {
  readonly perKey?: Limit | undefined;
}

export interface StoredLimits {
  action: string;
  limits: ActionLimits;
  /** Origin of the limits: a request, or the handlers module. */
  source: 'api' | 'module';
  use: Pick<UsedLimit, 'running' | 'nextStartAt'>;
}

export type LimitSource = StoredLimits['source'];

export interface UsedLimit extends Limit {
  running: number;
  /** When the next task can start, if the rate is used up. */
  nextStartAt: number | undefined;
}

export interface StoredMessage extends Message {
  arrival: number;
  /** Size of the whole body in bytes. */
  bodyBytes: number;
  state: MessageState;
  priority: number;
  limitKey: string | undefined;
  runAt: number;
  acceptedAt: number;
  /** Number of failed attempts. */
  attempts: number;
  /** Reason of the last failed attempt. */
  reason: string | null;
  history: AttemptHistory;
  /** Which limit a limited message waits for. */
  limitedBy: 'key' | 'action' | undefined;
  /** Whether a dead letter failed with a permanent error. */
  isPermanent: boolean;
  failedAt: number | undefined;
  /** Start and progress of the running attempt, if its node reported them. */
  startedAt: number | undefined;
  progress: TaskProgress | undefined;
  /** Id of the node that runs the message. Undefined on a single node. */
  node?: string | undefined;
}

export type FoundTask = { row: DetailedRow } | { message: StoredMessage };

/** Part of a dead letter that tells why the task failed. */
export interface FoundFailure extends Found {
  /** As the database stores it. */
  action: string | null;
  reason: string | null;
  failedAt: number;
  permanent: boolean | number;
}

export interface ActionCount {
  action: string | null;
  state: MessageState;
  count: number;
}

export type ListedState = Exclude<MessageState, 'failed'>;

/** When redriven messages are due: the first at `from`, in milliseconds since the epoch, and each next one `intervalMs` later. */
export interface Pace {
  from: number;
  intervalMs: number;
}

/** Returns when the message with this index is due. */
export function dueAt({ from, intervalMs }: Pace, index: number): number {
  return Math.floor(from + index * intervalMs);
}

export interface BulkResult {
  /** The dead letters that were redriven or purged. */
  done: readonly TaskSubject[];
  /** Number of selected dead letters that were kept because the queue reached a bound, or a later slice failed. */
  remaining: number;
}

/** Counts of messages: accepted = completed + dead + dropped + cancelled + waiting + limited + scheduled + retrying + inFlight. */
export interface QueueCounts {
  accepted: number;
  completed: number;
  /** Number of failed attempts that were followed by a retry. */
  retried: number;
  /** Number of messages that became dead letters. */
  failed: number;
  /** Number of dead letters that are stored. */
  dead: number;
  /** Number of dead letters that were evicted or purged. */
  dropped: number;
  cancelled: number;
  waiting: number;
  limited: number;
  scheduled: number;
  retrying: number;
  inFlight: number;
  /** Number of messages in flight whose attempts have started. Undefined if only the process that runs them knows. */
  running?: number | undefined;
  /** Size of all messages but the dead letters, in bytes. */
  bytes: number;
  /** When the longest waiting message became due. */
  oldest: number | undefined;
  /** Number of dead letters that this process has evicted because of a bound. */
  evicted: number;
}

export interface RetentionLimits {
  /** Number of newest rows to keep. Undefined for all. */
  rows: number | undefined;
  /** Rows of tasks completed before this time, in Unix seconds, are deleted. */
  before: number | undefined;
}

export interface QueueBounds {
  /** Maximum number of messages, without the dead letters. */
  maxLength: number;
  /** Maximum size of all messages, without the dead letters: bodies, reasons, histories and callback URLs, in bytes. */
  maxBytes: number;
  /** Maximum number of idempotency keys. The oldest is evicted. */
  maxKeys: number;
}

/** Returns the number of messages that are no dead letters. */
export function unfinished(
  counts: Pick<QueueCounts, 'waiting' | 'limited' | 'scheduled' | 'retrying' | 'inFlight'>,
): number {
  const { waiting, limited, scheduled, retrying, inFlight } = counts;
  return waiting + limited + scheduled + retrying + inFlight;
}

/** Size of an accepted message, as the bounds count it. */
export function sizeOf({ body, callbackUrl = '' }: Pick<Message, 'body' | 'callbackUrl'>): number {
  return Buffer.byteLength(body) + callbackUrl.length;
}

/** Action of the messages that report the ends of tasks. */
export const CALLBACK_ACTION = 'callback';

/** Priority of callbacks: the first, because they hold no place in the window. */
export const CALLBACK_PRIORITY = 1;

export interface CallbackData {
  url: string;
  task: string;
  /** First characters of its action. */
  action: string | null;
  status: EndStatus;
}

export type EndStatus = 'completed' | 'failed' | 'cancelled';

/** Bounds of the dead letters. The oldest is evicted. Read at each use, because specs lower them. */
export const deadLetterBounds = { maxLength: 10_000, maxBytes: 32 * 1024 * 1024 };

export const KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** Number of process deaths from which on a message is a suspect, unless an attempt has ended since. */
export const SUSPECT_DEATHS = 2;

/** Interval at which one suspect runs although other messages are due. */
export const SUSPECT_INTERVAL_MS = 10_000;

export const NORMAL_PRIORITY = 3;
export const PRIORITIES = [1, 2, 3, 4, 5] as const;

/** One of this number of messages is taken because it has waited longest, whatever its priority and key. */
export const TAKES_PER_LONGEST = 10;

/** Largest number of messages that become due in one transaction. */
export const STAGED_SLICE = 200;

/** Longest time until the next attempt. A longer time in a stored message means that the clock was set back. */
export const LONGEST_WAIT_MS = 24 * 60 * 60 * 1000;

/** Largest slice of rows that the retention deletes in one transaction, which then takes only a few milliseconds. */
export const RETENTION_SLICE = { maxLength: 200, maxBytes: 256 * 1024 };

/** Thrown if the queue has reached its limit on the number or total size of messages. */
export class QueueFull extends Error {
  override name = 'QueueFull';
}

/** Thrown if the idempotency key was already used for a submission with different content. */
export class KeyReused extends Error {
  override name = 'KeyReused';
  override message = 'the idempotency key belongs to another submission';
}

/** Thrown if the database cannot store a value, such as a NUL character in PostgreSQL. */
export class ValueRefused extends Error {
  override name = 'ValueRefused';
}

export type SetLimits = Omit<StoredLimits, 'use'>;

/** Thrown if a database file cannot be opened, or if a database server does not answer. */
export class DatabaseUnavailable extends Error {
  override name = 'DatabaseUnavailable';
}
