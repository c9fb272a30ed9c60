import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';
import type { TaskProgress } from '../../../workers/messages.ts';

export type { DeadLetter, TaskProgress };

/**
 * The queue between the tasks router and the dispatcher. A message is published, taken as a delivery, and settled. The
 * conformance suite for all drivers is in `spec/drivers`.
 */
export interface Queue {
  /** Whether accepted messages survive when the process is killed. */
  readonly durable: boolean;
  /**
   * Accepts a message. Once the promise resolves, the message will be delivered. A submission with an idempotency key is accepted
   * only once, even if it is repeated.
   *
   * @returns the id of the message, or of the message accepted earlier under the same key
   * @throws {QueueFull} if a bound is reached
   * @throws {KeyReused | KeyInUse} if the key belongs to a different submission, or to one that is still being accepted
   */
  publish(message: Message, keyed?: KeyedSubmission): Promise<string>;
  /**
   * Takes up to `max` deliveries, in order. Returns an empty array at once if no message is ready. A delivery is in flight
   * until it is settled. A durable queue records deliveries before it returns them, so that it can redeliver them as suspects if the
   * process dies.
   *
   * @throws {Error} if the deliveries cannot be recorded; the messages stay in the queue
   */
  take(max: number): Delivery[] | Promise<Delivery[]>;
  /**
   * Calls `listener` whenever `take` may return deliveries again, and lets a queue shared by several nodes prefetch messages for this
   * node. The returned function ends both, and releases the prefetched messages that were not taken.
   */
  onReady(listener: () => void): () => void;
  /**
   * Cancels a task. A message that no worker is running leaves the queue, whether it is waiting, delayed or in flight; the promise
   * resolves when this is recorded. If a worker is running the message, the listener of `onCancel` is called on the worker's node.
   *
   * @returns `cancelled` if the message has left the queue, `running` if its attempt has been asked to end, undefined if the task is
   *   completed, dead-lettered or unknown
   * @throws {Error} if the cancellation cannot be recorded; the message then stays in the queue
   */
  cancel(id: string): Promise<'cancelled' | 'running' | undefined>;
  /**
   * Sets the listener for cancellations. The returned function removes it. The listener is called with a cancelled delivery that is in
   * flight on this node. It returns true if it has withdrawn the delivery before its attempt started. The queue then settles the
   * delivery as cancelled. It returns false if the attempt has started. The delivery is then settled when the attempt ends.
   */
  onCancel(listener: (delivery: Delivery) => boolean): () => void;
  /** Sets the progress of a running delivery, and reports it as an event. `find` returns the progress until the attempt ends. */
  reportProgress(delivery: Delivery, progress: TaskProgress): void;
  /** Marks a delivery as started by a worker. A durable queue stores the start of a suspect. @throws {Error} if it cannot be stored */
  markRunning(delivery: Delivery): Promise<void>;
  /**
   * Settles a delivery. Later settlements of the same delivery are ignored. The settlement takes effect at once; the promise
   * resolves when it is recorded.
   */
  settle(delivery: Delivery, settlement: Settlement): Promise<void>;
  /** Returns the state of an unfinished or failed task, or undefined if the task is completed or unknown. */
  find(id: string): Promise<Progress | undefined>;
  counts(): QueueCounts;
  /** Returns when the oldest unsettled message was accepted, in milliseconds since the epoch, or undefined if there is none. */
  oldest(): number | undefined;
  /** Returns the newest dead letters, newest first, without their bodies. */
  newestDeadLetters(limit: number): Promise<readonly ListedDeadLetter[]>;
  /**
   * Requeues a dead letter and resets its attempts.
   *
   * @returns whether the dead letter existed
   * @throws {QueueFull} if a bound is reached; the dead letter is then kept
   */
  redrive(id: string): Promise<boolean>;
  /** Deletes a dead letter. @returns whether the dead letter existed */
  purge(id: string): Promise<boolean>;
  /** Closes the queue. Unsettled messages that are not stored are lost. @throws {Error} if the last changes could not be stored */
  close(): Promise<void>;
}

/** Number of completed tasks whose rows could not be synced to disk. The tasks stay in `queue.db`, so the next start runs them again. */
export interface UnsyncedRows {
  tasks: number;
  /** Error message of the last failed sync. */
  reason: string;
}

/** An open queue and its health. */
export interface OpenQueue {
  queue: Queue;
  /** Closes the queue; called once all deliveries are settled. @returns whether the messages are kept for the next start or other nodes */
  close(): Promise<boolean>;
  /** Returns the problem with `queue.db`, or undefined when healthy. Absent if the queue's changes are not written to `queue.db`. */
  fileProblem?(): string | undefined;
  /** Returns the number of completed tasks with unsynced rows. Absent if the queue's changes are not written to `queue.db`. */
  unsynced?(): UnsyncedRows;
  /** Returns the number of dead letters that this process evicted because of a bound. Absent if a server evicts them. */
  evicted?(): number;
}

export interface QueueBounds {
  /** Maximum number of messages that are waiting, delayed or in flight. */
  maxLength: number;
  /** Maximum total size in bytes of the bodies and failure reasons of messages that are waiting, delayed or in flight. */
  maxBytes: number;
  /** Maximum number of idempotency keys to keep. */
  maxKeys: number;
}

/** A queued task; `body` is the JSON text of the specification's queued task message. */
export interface Message {
  id: string;
  body: string;
}

/** Identifies a submission, so that it is accepted only once even if the client repeats it. */
export interface IdempotencyKey {
  key: string;
  /** Hash of the submission's content, used to detect that a key is reused for a different submission. */
  fingerprint: string;
}

/** A submission with an idempotency key. */
export interface KeyedSubmission extends IdempotencyKey {
  /** Creates the submission's message with an id that an earlier, unfinished `publish` of the same submission has reserved. */
  createMessage(id: string): Message;
}

/** A message that has been taken from the queue but not settled yet. */
export interface Delivery {
  readonly message: Message;
  /** The message's number in the order of arrival, unique among all messages that the queue has ever accepted. */
  readonly sequence: number;
  /** Time at which the message was accepted, in milliseconds since the epoch. */
  readonly acceptedAt: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Number of earlier attempts that ended because their thread or process died. */
  readonly crashes: number;
  /** Whether a process died while the message was in flight, and no attempt has ended since. The message may be the cause. */
  readonly suspect: boolean;
}

/** What to do with a delivered message once its handler has run, or could not be run. */
export type Settlement =
  /** Completed: the message leaves the queue. */
  | { kind: 'ack' }
  /** Failed: the message is delivered again after `delayMs`. One attempt is counted, and one crash if `failure` is `crash`. */
  | { kind: 'retry'; delayMs: number; reason: string; failure: 'transient' | 'crash' }
  /** Postponed: the message is delivered again after `delayMs`. No attempt is counted. */
  | { kind: 'snooze'; delayMs: number; reason: string }
  /** Failed and not retried: the message becomes a dead letter, which records the number of `attempts`. */
  | { kind: 'discard'; attempts: number; reason: string; failure: Failure }
  /** Not processed: the message returns to the head of the queue. No attempt is counted. */
  | { kind: 'release' }
  /** Cancelled: the message leaves the queue, and its task has no row. */
  | { kind: 'cancel' };

/** Kind of failure. A transient error may not recur on the next attempt; a crash is the death of the thread or process. */
export type Failure = 'transient' | 'permanent' | 'crash';

export type SettlementOf<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>;

/** State of an unfinished or failed task. Times are milliseconds since the epoch. */
export type Progress =
  | { state: 'queued' }
  /** `progress` is what the handler last reported in this attempt. */
  | { state: 'running'; attempt: number; progress?: TaskProgress }
  /** The last attempt failed because of `reason`. The next attempt is due at `dueAt`. */
  | { state: 'retrying'; attempts: number; reason: string; dueAt: number }
  | { state: 'failed'; letter: DeadLetter };

/** State change or progress of a task, reported by the queue. `dueAt` is in milliseconds since the epoch. */
export type TaskEvent =
  | { event: 'accepted' | 'completed' | 'cancelled'; id: string }
  | { event: 'started'; id: string; attempt: number }
  | { event: 'progress'; id: string; attempt: number; fraction: number; note?: string }
  | { event: 'retrying'; id: string; attempts: number; reason: string; dueAt: number }
  | { event: 'failed'; id: string; attempts: number; reason: string };

/** Counts of messages. At any time, accepted = completed + dead + dropped + cancelled + waiting + delayed + inFlight. */
export interface QueueCounts {
  accepted: number;
  completed: number;
  /** Number of dead letters that are stored. */
  dead: number;
  /** Number of dead letters that were evicted or purged. */
  dropped: number;
  /** Number of cancelled messages. */
  cancelled: number;
  waiting: number;
  delayed: number;
  inFlight: number;
  /** Total size in bytes of the messages that are waiting, delayed or in flight. */
  bytes: number;
}

/** A dead letter in a listing. Its contents are read only when needed. */
export interface ListedDeadLetter {
  /** Approximate size of the dead letter in bytes. */
  bytes: number;
  /** Reads the dead letter. Returns undefined if it no longer exists. */
  read(): Promise<DeadLetter | undefined>;
}

/** Thrown if the queue has reached its limit on the number or total size of messages. */
export class QueueFull extends Error {
  override name = 'QueueFull';
}

/** Thrown if the idempotency key was already used for a submission with different content. */
export class KeyReused extends Error {
  override name = 'KeyReused';
}

/** Thrown if an earlier submission with the same idempotency key is still being accepted. */
export class KeyInUse extends Error {
  override name = 'KeyInUse';
}
