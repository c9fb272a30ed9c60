/**
 * The queue between the tasks router and the dispatcher. A message is published, taken as a delivery, and settled. Every
 * driver passes `spec/drivers`.
 */
export interface Queue {
  /** Whether accepted messages outlive a process that is killed. */
  readonly durable: boolean;
  /**
   * Accepts a message; once the promise is fulfilled, the message will be delivered.
   *
   * @param keyed a submission accepted before under the same key is not accepted again
   * @returns the id of the accepted message: this message's, or the earlier one's
   * @throws {QueueFull} when a bound is reached
   * @throws {KeyReused | KeyInUse} when the key belongs to another submission, or to one that is being accepted right now
   */
  publish(message: Message, keyed?: KeyedSubmission): Promise<string>;
  /**
   * Takes up to `max` deliveries, in order; an empty array at once if none is ready. A delivery is in flight until it is
   * settled. A durable queue records that first: if the process dies, its deliveries come back as suspects.
   *
   * @throws {Error} when that cannot be recorded; the messages stay in the queue
   */
  take(max: number): Delivery[] | Promise<Delivery[]>;
  /**
   * Calls `listener` whenever `take` may have something again; a later listener replaces an earlier one. The returned function
   * removes the listener. Only while there is a listener, a shared queue fetches messages for this process. Those that were not
   * taken by then are requeued.
   */
  onReady(listener: () => void): () => void;
  /**
   * Marks a delivery as running. For a suspect a durable queue records that, so that it can tell whether the process
   * died again while the task was running.
   *
   * @throws {Error} when the run of a suspect cannot be recorded
   */
  markRunning(delivery: Delivery): Promise<void>;
  /**
   * Settles a delivery; later settlements of the same delivery are ignored. The settlement counts at once, the promise is
   * fulfilled when it is recorded.
   */
  settle(delivery: Delivery, settlement: Settlement): Promise<void>;
  /** The state of an unfinished message; undefined for a completed and for an unknown one. */
  find(id: string): Promise<Progress | undefined>;
  counts(): QueueCounts;
  /** When the oldest message that is waiting, delayed or in flight was accepted, in milliseconds since the epoch. */
  oldest(): number | undefined;
  /** The newest dead letters, newest first, without their bodies. */
  newestDeadLetters(limit: number): Promise<readonly ListedDeadLetter[]>;
  /**
   * Puts a dead letter back into the queue with all its attempts.
   *
   * @returns whether there was a dead letter with that id
   * @throws {QueueFull} when a bound is reached; the dead letter stays
   */
  redrive(id: string): Promise<boolean>;
  /** Deletes a dead letter. @returns whether there was one with that id */
  purge(id: string): Promise<boolean>;
  /**
   * Closes the queue. Unsettled messages are lost unless the driver stores them.
   *
   * @throws {Error} when its last changes could not be stored
   */
  close(): Promise<void>;
}

/** Completed tasks whose rows could not be synced to disk. They stay in the queue's file, so the next start runs them again. */
export interface UnsyncedRows {
  /** Number of these tasks; 0 after a successful sync. */
  tasks: number;
  /** Why the last failed sync failed. */
  reason: string;
}

/** A queue that is open. */
export interface OpenQueue {
  queue: Queue;
  /** Closes the queue once nothing is in flight. @returns whether the next start, or another node, continues with its messages */
  close(): Promise<boolean>;
  /** Returns the problem with the file of a durable queue, or undefined when healthy. Absent without such a file. */
  fileProblem?(): string | undefined;
  /** Absent without a file of a durable queue. */
  unsynced?(): UnsyncedRows;
  /** Dead letters that this process evicted because of a bound. Absent where a server evicts them. */
  evicted?(): number;
}

/** A queued task; `body` is the JSON text of the specification's queued task message. */
export interface Message {
  id: string;
  body: string;
}

/** Identifies a submission that a client may repeat. */
export interface IdempotencyKey {
  key: string;
  /** Distinguishes submissions that use the same key. */
  fingerprint: string;
}

/** A submission with an idempotency key. */
export interface KeyedSubmission extends IdempotencyKey {
  /** The message of this submission under the id that an earlier, unfinished attempt to publish it has reserved. */
  createMessage(id: string): Message;
}

/** A message taken from the queue and not settled. */
export interface Delivery {
  readonly message: Message;
  /** The message's number in the order of arrival, unique for all messages the queue ever accepted. */
  readonly sequence: number;
  /** When the message was accepted, in milliseconds since the epoch. */
  readonly acceptedAt: number;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Earlier attempts that ended with the death of their thread or process. */
  readonly crashes: number;
  /** Whether a process died while the message was in flight, and no attempt has ended since: this message may be the cause. */
  readonly suspect: boolean;
}

/** How a delivery ends. */
export type Settlement =
  /** Completed: the message leaves the queue. */
  | { kind: 'ack' }
  /** Failed: the message is delivered again after a delay. Counts an attempt, and a crash if its thread died. */
  | { kind: 'retry'; delayMs: number; reason: string; failure: 'transient' | 'crash' }
  /** Delivered again after a delay. Counts no attempt. */
  | { kind: 'snooze'; delayMs: number; reason: string }
  /** Failed for good: the message becomes a dead letter with that number of attempts. */
  | { kind: 'discard'; attempts: number; reason: string; failure: Failure }
  /** Not processed: the message returns to the head of the queue. Counts no attempt. */
  | { kind: 'release' };

/** How the last attempt failed. Transient errors may be gone at the next attempt; a crash is the death of the thread. */
export type Failure = 'transient' | 'permanent' | 'crash';

export type SettlementOf<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>;

/** Times are milliseconds since the epoch. */
export type Progress =
  | { state: 'queued' }
  | { state: 'running'; attempt: number }
  /** Waits until `dueAt`, because of `reason`. */
  | { state: 'retrying'; attempts: number; reason: string; dueAt: number }
  | { state: 'failed'; letter: DeadLetter };

/** A state change of a message, as a driver reports it. */
export type TaskEvent =
  | { event: 'accepted' | 'completed'; id: string }
  | { event: 'started'; id: string; attempt: number }
  | { event: 'retrying'; id: string; attempts: number; reason: string; dueAt: number }
  | { event: 'failed'; id: string; attempts: number; reason: string };

/** accepted = completed + dead + dropped + waiting + delayed + inFlight, at any time. */
export interface QueueCounts {
  accepted: number;
  completed: number;
  /** Dead letters that are kept. */
  dead: number;
  /** Dead letters that had to make room for newer ones, or were deleted. */
  dropped: number;
  waiting: number;
  delayed: number;
  inFlight: number;
  /** Bytes of the messages that are waiting, delayed or in flight. */
  bytes: number;
}

/** A discarded task. Times are milliseconds since the epoch. */
export interface DeadLetter extends Message {
  /** The number that the message had in its queue. */
  sequence: number;
  reason: string;
  attempts: number;
  acceptedAt: number;
  failedAt: number;
}

/** A dead letter in a listing. */
export interface ListedDeadLetter {
  /** Size of the letter, approximately. */
  bytes: number;
  /** Reads the letter, or undefined if it is gone. */
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

/** The submission that the idempotency key belongs to is under way. */
export class KeyInUse extends Error {
  override name = 'KeyInUse';
}
