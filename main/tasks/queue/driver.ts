/** What the dispatcher and the tasks router need of a queue. Every driver passes `spec/drivers`. */
export interface QueueDriver {
  /** Whether what it holds outlives a process that is killed. */
  readonly durable: boolean;
  /**
   * Takes a message over; once the promise is fulfilled it will be delivered.
   *
   * @param key names the submission: one that was taken before under the same key is not taken again
   * @returns the id of the message that was taken: this one's, or the earlier one's
   * @throws {QueueFull} when a bound is reached
   * @throws {KeyReused | KeyInUse} when the key belongs to another submission, or to one that is being taken right now
   */
  publish(message: Message, key?: IdempotencyKey): Promise<string>;
  /**
   * Hands deliveries to `receive` in order, never more than `prefetch` that are not settled.
   * A queue has one consumer at a time.
   */
  consume(prefetch: number, receive: (delivery: Delivery) => void): Consumer;
  /** How far the message with that id has come; undefined for one that is done, and for an unknown one. */
  find(id: string): Promise<Progress | undefined>;
  counts(): QueueCounts;
  /** When the oldest message was accepted that is waiting, delayed or in flight, in milliseconds since the epoch. */
  oldest(): number | undefined;
  /** The newest dead letters, newest first, without their bodies. */
  newestDeadLetters(limit: number): Promise<readonly ListedDeadLetter[]>;
  /**
   * Puts a task that was given up back into the queue, as if it had not been tried.
   *
   * @returns whether there was one with that id
   * @throws {QueueFull} when a bound is reached; it stays where it was
   */
  retryDeadLetter(id: string): Promise<boolean>;
  /** Drops a task that was given up. @returns whether there was one with that id */
  deleteDeadLetter(id: string): Promise<boolean>;
  /**
   * Ends the queue. Messages that are not settled are lost unless the driver stores them.
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
  queue: QueueDriver;
  /** Ends the queue once nothing is in flight. @returns whether what it held is taken up by the next start, or another node */
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

/** What a client names a submission with, so that it may send it again without harm. */
export interface IdempotencyKey {
  key: string;
  /** Tells the submission from another one. */
  fingerprint: string;
}

/** One attempt at a message. It settles once: of `ack`, `nack` and `release` the first call counts. */
export interface Delivery {
  readonly message: Message;
  /** The message's place in the order of arrival, across all that the queue ever took. */
  readonly seq: number;
  /** When the message was accepted, in milliseconds since the epoch. */
  readonly acceptedAt: number;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** How many earlier attempts ended with the death of their thread. */
  readonly crashes: number;
  /** Whether the last attempt ended with the process itself: this message, or one that was worked on beside it, is to blame. */
  readonly cut: boolean;
  /** Whether the thread of the last attempt died, and this task or another of its batch is the cause. It is known on one node only. */
  readonly suspect: boolean;
  /** Notes that the attempt begins; a durable queue then knows what the process was at, should it die. */
  begin(): Promise<void>;
  /** Done: the message leaves the queue. */
  ack(): Promise<void>;
  /** Failed: the message is delivered again later, or given up, as `verdict` says. */
  nack(verdict: Verdict): Promise<void>;
  /**
   * Not tried: the message goes back to the head of the queue as if it had never left.
   *
   * @param suspect the next delivery's `suspect`, the same as this one's if omitted
   */
  release(suspect?: boolean): Promise<void>;
}

/** `tried` is false where no attempt has taken place, which is then not counted. */
export type Verdict =
  | { verdict: 'retry'; delayMs: number; reason: string; crashed: boolean; tried?: false }
  | { verdict: 'dead'; reason: string; tried?: false };

/** Times are milliseconds since the epoch. */
export type Progress =
  | { state: 'queued' }
  | { state: 'running'; attempt: number }
  /** Failed `attempts` times, the last time for `reason`. */
  | { state: 'retrying'; attempts: number; reason: string; dueAt: number }
  | { state: 'failed'; letter: DeadLetter };

/** A step in the life of a message, as a driver tells of it. */
export type TaskEvent =
  | { event: 'accepted' | 'completed'; id: string }
  | { event: 'started'; id: string; attempt: number }
  | { event: 'retrying'; id: string; attempts: number; reason: string; dueAt: number }
  | { event: 'failed'; id: string; attempts: number; reason: string };

export interface Consumer {
  /** No delivery is handed out after this call. */
  stop(): void;
}

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

/** A task that was given up. Times are milliseconds since the epoch: when it was accepted, and when it was given up. */
export interface DeadLetter extends Message {
  /** The number that the message had in its queue. */
  seq: number;
  reason: string;
  attempts: number;
  firstAt: number;
  lastAt: number;
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
