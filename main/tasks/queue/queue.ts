import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';
import type { TaskProgress } from '../../../workers/messages.ts';
import type { DeadLetterOperations } from './dead-letter-operations.ts';
import type { ListedState, ListedTask, Progress, TaskListing, UnfinishedState } from './task-state.ts';

export type { DeadLetter, ListedState, ListedTask, Progress, TaskListing, TaskProgress, UnfinishedState };

/**
 * The queue between the tasks router and the dispatcher. A message is published, taken as a delivery, and settled. The
 * conformance suite for all drivers is in `spec/drivers`.
 */
export interface Queue extends DeadLetterOperations {
  /** Whether accepted messages survive if the process is killed. */
  readonly durable: boolean;
  /**
   * Accepts a message. Once the promise resolves, the message will be delivered. A submission with an idempotency key is accepted
   * only once, even if it is repeated.
   *
   * @returns the id of the message, or of the message accepted earlier under the same key
   * @throws {QueueFull} if a bound is reached
   * @throws {KeyReused | KeyInUse} if the key belongs to another submission, or its submission is still being accepted
   */
  publish(message: Message, keyed?: KeyedSubmission): Promise<string>;
  /**
   * Takes up to `max` deliveries, in order. Returns an empty array immediately if no message is ready. A delivery is in
   * flight until it is settled. A durable queue records deliveries before it returns them. If the process dies, the
   * next process redelivers them as suspects.
   *
   * @throws {Error} if the deliveries cannot be recorded; the messages stay in the queue
   */
  take(max: number): Delivery[] | Promise<Delivery[]>;
  /**
   * Calls `listener` whenever `take` may return deliveries again. A queue shared by several nodes also starts to
   * prefetch messages for this node. The returned function removes the listener and releases prefetched messages that
   * were not taken.
   */
  onReady(listener: () => void): () => void;
  /**
   * Cancels a task. A message that no worker has started leaves the queue; the promise resolves once the cancellation
   * is recorded. If a worker has started the message, the worker's node calls its `onCancel` listener.
   *
   * @returns `cancelled` if the message has left the queue, `running` if its attempt is being cancelled, undefined if
   *   the task is completed, dead-lettered or unknown
   * @throws {Error} if the cancellation cannot be recorded; the message then stays in the queue
   */
  cancel(id: string): Promise<'cancelled' | 'running' | undefined>;
  /**
   * Sets the listener for cancellations of deliveries in flight on this node. The listener returns true if it withdrew
   * the delivery before the attempt started; the queue then settles the delivery as cancelled. It returns false if the
   * attempt has started; the delivery is then settled when the attempt ends. The function returned by `onCancel`
   * removes the listener.
   */
  onCancel(listener: (delivery: Delivery) => boolean): () => void;
  /**
   * Whether the queue is paused, on all nodes if the queue is shared. `take` returns no deliveries of a paused queue.
   */
  readonly paused: boolean;
  /**
   * Pauses the queue. Deliveries in flight can still be settled, and messages can still be published. A durable queue
   * stores the pause before the promise resolves. On other nodes, the pause takes effect within a second or two.
   *
   * @throws {Error} if the pause cannot be stored; the queue is then not paused
   */
  pause(): Promise<void>;
  /** Resumes the queue. @throws {Error} if the change cannot be stored; the queue then stays paused */
  resume(): Promise<void>;
  /** Calls `listener` whenever the queue is paused or resumed, on this or another node. The returned function removes the listener. */
  onPauseChange(listener: (isPaused: boolean) => void): () => void;
  /** Sets the progress of a running delivery, and reports it as an event. `find` returns the progress until the attempt ends. */
  reportProgress(delivery: Delivery, progress: TaskProgress): void;
  /** Marks a delivery as started. @throws {Error} if a durable queue must record the start but cannot */
  markRunning(delivery: Delivery): Promise<void>;
  /**
   * Settles a delivery, with immediate effect. The promise resolves when the settlement is recorded. Later settlements
   * of the same delivery are ignored.
   */
  settle(delivery: Delivery, settlement: Settlement): Promise<void>;
  /** Returns the state of an unfinished or failed task, or undefined if the task is completed or unknown. */
  find(id: string): Promise<Progress | undefined>;
  /**
   * Lists up to `LISTED_TASKS` unfinished tasks in a state: waiting tasks in the order of delivery, tasks in flight
   * with the longest running first, or delayed tasks with the next due first.
   *
   * @param admit awaited before each message is read; `bytes` is the size of the message
   */
  listTasks(state: ListedState, admit: (bytes: number) => Promise<void>): Promise<TaskListing>;
  counts(): QueueCounts;
  /**
   * Returns the time at which the oldest message was accepted, in milliseconds since the epoch. Undefined if the queue
   * is empty.
   */
  oldest(): number | undefined;
  /** Closes the queue. Unsettled messages that are not stored are lost. @throws {Error} if the last changes could not be stored */
  close(): Promise<void>;
}

/** Completed tasks whose rows could not be synced to disk. The next start runs these tasks again. */
export interface UnsyncedRows {
  tasks: number;
  /** Error message of the last failed sync. */
  reason: string;
}

/** An open queue and its health. */
export interface OpenQueue {
  queue: Queue;
  /**
   * Closes the queue; called once all deliveries are settled.
   *
   * @returns whether the messages are kept for the next start or for other nodes
   */
  close(): Promise<boolean>;
  /** Returns the problem with `queue.db`, or undefined when healthy. Only present for the `sqlite` driver. */
  fileProblem?(): string | undefined;
  /** Returns the problem with the servers that hold the queue, or undefined when healthy. Absent if the queue is local. */
  serverProblem?(): string | undefined;
  /** Returns the number of completed tasks with unsynced rows. Only present for the `sqlite` driver. */
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

/** Idempotency key of a submission. A repeated submission with the same key is accepted only once. */
export interface IdempotencyKey {
  key: string;
  /** Hash of the submission's content, used to detect that a key is reused for a different submission. */
  fingerprint: string;
}

/** A submission with an idempotency key. */
export interface KeyedSubmission extends IdempotencyKey {
  /** Creates the message with the id that an earlier, unfinished `publish` of the same submission has reserved. */
  createMessage(id: string): Message;
}

/** A message that has been taken from the queue but not settled yet. */
export interface Delivery {
  readonly message: Message;
  /** Number of the message in order of arrival, unique among all messages ever accepted by the queue. */
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

/** End of a delivery, which decides what happens to its message. */
export type Settlement =
  /** Completed: the message leaves the queue. */
  | { kind: 'ack' }
  /** Failed: the message is delivered again after `delayMs`. One attempt is counted, and one crash if `failure` is `crash`. */
  | { kind: 'retry'; delayMs: number; reason: string; failure: 'transient' | 'crash' }
  /** Postponed: the message is delivered again after `delayMs`. No attempt is counted. */
  | { kind: 'snooze'; delayMs: number; reason: string }
  /** Failed and not retried: the message becomes a dead letter with this number of `attempts`. */
  | { kind: 'discard'; attempts: number; reason: string; failure: Failure }
  /** Not processed: the message returns to the head of the queue. No attempt is counted. */
  | { kind: 'release' }
  /** Cancelled: the message leaves the queue, and its task has no row. */
  | { kind: 'cancel' };

/** Kind of failure. A transient error may not recur on the next attempt; a crash is the death of the thread or process. */
export type Failure = 'transient' | 'permanent' | 'crash';

export type SettlementOf<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>;

/** State change or progress of a task, reported by the queue. `dueAt` is in milliseconds since the epoch. */
export type TaskEvent = EventSubject &
  (
    | { event: 'accepted' | 'completed' | 'cancelled' }
    /** A dead letter was purged, or evicted because of a bound. */
    | { event: 'purged' }
    | { event: 'started'; attempt: number }
    | { event: 'progress'; attempt: number; fraction: number; note?: string }
    | { event: 'retrying'; attempts: number; reason: string; dueAt: number }
    | { event: 'failed'; attempts: number; reason: string }
  );

/** Fields that all events of a task have in common. */
export interface EventSubject {
  id: string;
  /** The first characters of the action; see `actionStart`. Absent if the event comes from a node of version 0.1.0. */
  action?: string | undefined;
  /** Time of the event in milliseconds since the epoch. */
  at: number;
}

/** A pause of the queue, or its end, at the time `at` in milliseconds since the epoch. */
export interface PauseEvent {
  event: 'paused' | 'resumed';
  at: number;
}

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
