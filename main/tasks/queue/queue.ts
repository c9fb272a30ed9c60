import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';

export type { DeadLetter };

/**
 * The queue between the tasks router and the dispatcher. A message is published, taken as a delivery, and settled. The
 * conformance suite of all drivers is `spec/drivers`.
 */
export interface Queue {
  /** Whether accepted messages survive a killed process. */
  readonly durable: boolean;
  /**
   * Accepts a message. Once the promise resolves, the message will be delivered. With an idempotency key, a repeated submission is
   * accepted only once.
   *
   * @returns the id of the message, or of the message accepted earlier under the same key
   * @throws {QueueFull} if a bound is reached
   * @throws {KeyReused | KeyInUse} if the key belongs to another submission, or to one whose acceptance is in progress
   */
  publish(message: Message, keyed?: KeyedSubmission): Promise<string>;
  /**
   * Takes up to `max` deliveries, in order. Returns an empty array at once if no message is ready. A delivery is in flight
   * until it is settled. A durable queue records deliveries first, so that it redelivers them as suspects if the process dies.
   *
   * @throws {Error} if the deliveries cannot be recorded; the messages stay in the queue
   */
  take(max: number): Delivery[] | Promise<Delivery[]>;
  /**
   * Calls `listener` when `take` may return deliveries again, until the returned function is called. Meanwhile, a queue shared by
   * several nodes prefetches messages for this node. The returned function gives back the messages that were not taken.
   */
  onReady(listener: () => void): () => void;
  /** Marks a delivery as started by a worker. For a suspect, a durable queue stores this. @throws {Error} if that fails */
  markRunning(delivery: Delivery): Promise<void>;
  /**
   * Settles a delivery. Later settlements of the same delivery are ignored. The settlement takes effect at once; the promise
   * resolves when it is recorded.
   */
  settle(delivery: Delivery, settlement: Settlement): Promise<void>;
  /** Returns the state of an unfinished or failed task, or undefined if the task is completed or unknown. */
  find(id: string): Promise<Progress | undefined>;
  counts(): QueueCounts;
  /** Time at which the oldest message that is waiting, delayed or in flight was accepted, in milliseconds since the epoch. */
  oldest(): number | undefined;
  /** Returns the newest dead letters, newest first, without their bodies. */
  newestDeadLetters(limit: number): Promise<readonly ListedDeadLetter[]>;
  /** Requeues a dead letter with no attempts. @returns whether it existed @throws {QueueFull} and keeps it if a bound is reached */
  redrive(id: string): Promise<boolean>;
  /** Deletes a dead letter. @returns whether a dead letter had that id */
  purge(id: string): Promise<boolean>;
  /** Closes the queue. Unsettled messages are lost unless stored. @throws {Error} if the last changes could not be stored */
  close(): Promise<void>;
}

/** Number of completed tasks whose rows could not be synced to disk. They stay in `queue.db`, so the next start runs them again. */
export interface UnsyncedRows {
  tasks: number;
  /** Error message of the last failed sync. */
  reason: string;
}

/** An open queue and its health. */
export interface OpenQueue {
  queue: Queue;
  /** Closes the queue after all deliveries are settled. @returns whether the messages are kept for the next start or other nodes */
  close(): Promise<boolean>;
  /** Returns the problem with `queue.db`, or undefined when healthy. Absent if changes of the queue are not written to `queue.db`. */
  fileProblem?(): string | undefined;
  /** Returns the number of completed tasks with unsynced rows. Absent if changes of the queue are not written to `queue.db`. */
  unsynced?(): UnsyncedRows;
  /** Returns the number of dead letters that this process evicted because of a bound. Absent if a server evicts them. */
  evicted?(): number;
}

export interface QueueBounds {
  /** Maximum number of messages that are waiting, delayed or in flight. */
  maxLength: number;
  /** Maximum total bytes of the bodies and failure reasons of the messages that are waiting, delayed or in flight. */
  maxBytes: number;
  /** Maximum number of idempotency keys that are kept. */
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
  /** Hash of the submission's content, which reveals that a key was used for different submissions. */
  fingerprint: string;
}

/** A submission with an idempotency key. */
export interface KeyedSubmission extends IdempotencyKey {
  /** Creates the submission's message with `id`, which an earlier, unfinished attempt to publish the submission has reserved. */
  createMessage(id: string): Message;
}

/** A message that was taken from the queue and is not settled yet. */
export interface Delivery {
  readonly message: Message;
  /** Number of the message in the order of arrival, unique among all messages that the queue ever accepted. */
  readonly sequence: number;
  /** Time at which the message was accepted, in milliseconds since the epoch. */
  readonly acceptedAt: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Number of earlier attempts that ended with the death of their thread or process. */
  readonly crashes: number;
  /** Whether a process died while the message was in flight, and no attempt has ended since. The message may be the cause. */
  readonly suspect: boolean;
}

/** Decision about a delivery's message after its handler was run or could not be run. */
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
  | { kind: 'release' };

/** Kind of a failure. A transient error may not recur at the next attempt; a crash is the death of the thread or process. */
export type Failure = 'transient' | 'permanent' | 'crash';

export type SettlementOf<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>;

/** State of an unfinished or failed task. Times are milliseconds since the epoch. */
export type Progress =
  | { state: 'queued' }
  | { state: 'running'; attempt: number }
  /** The last attempt failed because of `reason`. The next one is due at `dueAt`. */
  | { state: 'retrying'; attempts: number; reason: string; dueAt: number }
  | { state: 'failed'; letter: DeadLetter };

/** State change of a task, reported by the queue. `dueAt` is in milliseconds since the epoch. */
export type TaskEvent =
  | { event: 'accepted' | 'completed'; id: string }
  | { event: 'started'; id: string; attempt: number }
  | { event: 'retrying'; id: string; attempts: number; reason: string; dueAt: number }
  | { event: 'failed'; id: string; attempts: number; reason: string };

/** Counts of messages. At any time, accepted = completed + dead + dropped + waiting + delayed + inFlight. */
export interface QueueCounts {
  accepted: number;
  completed: number;
  /** Number of dead letters that are kept. */
  dead: number;
  /** Number of dead letters that were evicted or purged. */
  dropped: number;
  waiting: number;
  delayed: number;
  inFlight: number;
  /** Total bytes of the messages that are waiting, delayed or in flight. */
  bytes: number;
}

/** A dead letter in a listing, whose contents are read later. */
export interface ListedDeadLetter {
  /** Approximate size of the dead letter in bytes. */
  bytes: number;
  /** Reads the dead letter. Returns undefined if it no longer exists. */
  read(): Promise<DeadLetter | undefined>;
}

/** Thrown if the queue has reached its bound on the number or the bytes of messages. */
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
