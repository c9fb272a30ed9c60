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
   * Accepts a message. Once the promise resolves, the message will be delivered. With a key, it is accepted only once.
   *
   * @returns the id of the message, or of the one accepted earlier under the same key
   * @throws {QueueFull} if a bound is reached
   * @throws {KeyReused | KeyInUse} if the key belongs to another submission, or to one whose acceptance is in progress
   */
  publish(message: Message, keyed?: KeyedSubmission): Promise<string>;
  /**
   * Takes up to `max` deliveries, in order. Returns an empty array at once if no message is ready. A delivery is in flight
   * until it is settled. A durable queue records it first, so that it is redelivered as a suspect if the process dies.
   *
   * @throws {Error} if the deliveries cannot be recorded; the messages stay in the queue
   */
  take(max: number): Delivery[] | Promise<Delivery[]>;
  /**
   * Calls `listener` when `take` may return deliveries again. A shared queue prefetches messages for this process until the
   * returned function is called, which releases the prefetched messages that were not taken.
   */
  onReady(listener: () => void): () => void;
  /** Marks a delivery as running. A durable queue records the start of a suspect. @throws {Error} if that fails */
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
  /** Puts a dead letter back, without attempts. @returns whether it exists @throws {QueueFull} if a bound is reached; it stays */
  redrive(id: string): Promise<boolean>;
  /** Deletes a dead letter. @returns whether a dead letter had that id */
  purge(id: string): Promise<boolean>;
  /** Closes the queue. Unsettled messages are lost unless stored. @throws {Error} if the last changes could not be stored */
  close(): Promise<void>;
}

/** Completed tasks whose rows could not be synced to disk. They stay in `queue.db`, so the next start runs them again. */
export interface UnsyncedRows {
  tasks: number;
  /** Reason of the last failed sync. */
  reason: string;
}

/** An open queue and its health. */
export interface OpenQueue {
  queue: Queue;
  /** Closes the queue, once all deliveries are settled. @returns whether messages are kept for the next start or other nodes */
  close(): Promise<boolean>;
  /** Returns the problem with `queue.db`, or undefined when healthy. Absent if the queue is not stored there continuously. */
  fileProblem?(): string | undefined;
  /** Returns the completed tasks whose rows are not synced. Absent if the queue is not stored in `queue.db` continuously. */
  unsynced?(): UnsyncedRows;
  /** Returns the number of dead letters that this process evicted because of a bound. Absent if a server evicts them. */
  evicted?(): number;
}

export interface QueueBounds {
  /** Most messages that are waiting, delayed or in flight. */
  maxLength: number;
  /** Most bytes of bodies and reasons of these messages. */
  maxBytes: number;
  /** Most idempotency keys that are kept. */
  maxKeys: number;
}

/** A queued task; `body` is the JSON text of the specification's queued task message. */
export interface Message {
  id: string;
  body: string;
}

/** Identifies a submission that a client may repeat. */
export interface IdempotencyKey {
  key: string;
  /** Hash of the content, which distinguishes submissions with the same key. */
  fingerprint: string;
}

/** A submission with an idempotency key. */
export interface KeyedSubmission extends IdempotencyKey {
  /** Creates the message of this submission with another id, reserved by an earlier unfinished attempt to publish it. */
  createMessage(id: string): Message;
}

/** A message taken from the queue and not settled. */
export interface Delivery {
  readonly message: Message;
  /** The message's number in the order of arrival, unique for all messages the queue ever accepted. */
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

/** Settlement of a delivery. */
export type Settlement =
  /** Completed: the message leaves the queue. */
  | { kind: 'ack' }
  /** Failed: the message is delivered again after a delay. Counts an attempt, and a crash if its thread died. */
  | { kind: 'retry'; delayMs: number; reason: string; failure: 'transient' | 'crash' }
  /** Delivered again after a delay. Counts no attempt. */
  | { kind: 'snooze'; delayMs: number; reason: string }
  /** Failed permanently: the message becomes a dead letter with that number of attempts. */
  | { kind: 'discard'; attempts: number; reason: string; failure: Failure }
  /** Not processed: the message returns to the head of the queue. Counts no attempt. */
  | { kind: 'release' };

/** Kind of a failure. A transient error may not recur at the next attempt; a crash is the death of the thread or process. */
export type Failure = 'transient' | 'permanent' | 'crash';

export type SettlementOf<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>;

/** State of an unfinished or failed task. Times are milliseconds since the epoch. */
export type Progress =
  | { state: 'queued' }
  | { state: 'running'; attempt: number }
  /** Delayed until `dueAt`, because of `reason`. */
  | { state: 'retrying'; attempts: number; reason: string; dueAt: number }
  | { state: 'failed'; letter: DeadLetter };

/** State change of a task, reported by a driver. */
export type TaskEvent =
  | { event: 'accepted' | 'completed'; id: string }
  | { event: 'started'; id: string; attempt: number }
  | { event: 'retrying'; id: string; attempts: number; reason: string; dueAt: number }
  | { event: 'failed'; id: string; attempts: number; reason: string };

/** Counts of messages. At any time, accepted = completed + dead + dropped + waiting + delayed + inFlight. */
export interface QueueCounts {
  accepted: number;
  completed: number;
  /** Dead letters that are stored. */
  dead: number;
  /** Dead letters that were evicted or purged. */
  dropped: number;
  waiting: number;
  delayed: number;
  inFlight: number;
  /** Bytes of the messages that are waiting, delayed or in flight. */
  bytes: number;
}

/** A dead letter in a listing. */
export interface ListedDeadLetter {
  /** Approximate size of the dead letter. */
  bytes: number;
  /** Reads the dead letter. Undefined if it no longer exists. */
  read(): Promise<DeadLetter | undefined>;
}

/** The queue has reached its bound by number or by bytes. */
export class QueueFull extends Error {
  override name = 'QueueFull';
}

/** The idempotency key was used for another submission. */
export class KeyReused extends Error {
  override name = 'KeyReused';
}

/** The acceptance of the submission with the same idempotency key is in progress. */
export class KeyInUse extends Error {
  override name = 'KeyInUse';
}
