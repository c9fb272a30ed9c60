import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';
import type { TaskProgress } from '../../../workers/messages.ts';
import type { DeadLetterOperations } from './dead-letter-operations.ts';
import type { ListedState, ListedTask, Progress, TaskListing, UnfinishedState } from './task-state.ts';

export type { DeadLetter, ListedState, ListedTask, Progress, TaskListing, TaskProgress, UnfinishedState };

/** Task queue. Every implementation must pass the conformance suite in `spec/drivers`. */
export interface Queue extends DeadLetterOperations {
  /** Whether accepted messages survive if the process is killed. */
  readonly durable: boolean;
  /** Accepts a message once per idempotency key, and returns its id. @throws {QueueFull | KeyReused | KeyInUse} */
  publish(message: Message, keyed?: KeyedSubmission): Promise<string>;
  /**
   * Takes up to `max` deliveries, in order, without waiting for messages. A durable queue records the deliveries first,
   * so that the next process redelivers them as suspects if this process dies.
   *
   * @throws {Error} if the deliveries cannot be recorded; the messages then stay in the queue
   */
  take(max: number): Delivery[] | Promise<Delivery[]>;
  /**
   * Calls `listener` whenever `take` may return deliveries. While a listener is set, a queue shared by several nodes
   * prefetches messages for this node. The returned function removes the listener and releases these messages.
   */
  onReady(listener: () => void): () => void;
  /**
   * Cancels a task. If a worker has started the task, calls the `onCancel` listener of the worker's node.
   *
   * @returns `cancelled` if the message has left the queue, `running` if its attempt is being cancelled, undefined if
   *   the task is completed, dead-lettered or unknown
   * @throws {Error} if the cancellation cannot be stored; the message then stays in the queue
   */
  cancel(id: string): Promise<'cancelled' | 'running' | undefined>;
  /**
   * Sets the listener that withdraws cancelled deliveries on this node. If the listener returns true, the attempt had
   * not started, and the queue settles the delivery. The returned function removes the listener.
   */
  onCancel(listener: (delivery: Delivery) => boolean): () => void;
  /** Whether the queue is paused on all nodes, so that `take` returns no deliveries. */
  readonly paused: boolean;
  /** Pauses deliveries on all nodes, within seconds on other nodes. @throws {Error} if the pause cannot be stored */
  pause(): Promise<void>;
  /** Resumes deliveries. @throws {Error} if the change cannot be stored; the queue then stays paused */
  resume(): Promise<void>;
  /** Calls `listener` when any node pauses or resumes the queue. The returned function removes the listener. */
  onPauseChange(listener: (isPaused: boolean) => void): () => void;
  /** Stores the progress of a running delivery until its attempt ends, and emits an event. */
  reportProgress(delivery: Delivery, progress: TaskProgress): void;
  /** Marks a delivery as started. @throws {Error} if a durable queue cannot record the start */
  markRunning(delivery: Delivery): Promise<void>;
  /** Settles a delivery at once. Only the first call has an effect. Resolves when the settlement is stored. */
  settle(delivery: Delivery, settlement: Settlement): Promise<void>;
  /** Returns the state of an unfinished or failed task, or undefined if the task is completed or unknown. */
  find(id: string): Promise<Progress | undefined>;
  /** Lists up to 100 tasks: next to deliver, longest running or next due. Awaits `admit` before reading a message. */
  listTasks(state: ListedState, admit: (bytes: number) => Promise<void>): Promise<TaskListing>;
  counts(): QueueCounts;
  /** Acceptance time of the oldest message, in milliseconds since the epoch. Undefined if the queue is empty. */
  oldest(): number | undefined;
  /** Closes the queue. @throws {Error} if the last changes could not be stored */
  close(): Promise<void>;
}

/** Completed tasks whose rows could not be synced to disk. The next start runs these tasks again. */
export interface UnsyncedRows {
  tasks: number;
  /** Error message of the last failed sync of task rows to disk. */
  reason: string;
}

export interface OpenQueue {
  queue: Queue;
  /** Closes the queue. Returns whether unfinished messages are kept for the next start or for other nodes. */
  close(): Promise<boolean>;
  /** Returns the problem with `queue.db`, or undefined when healthy. Only present for the `sqlite` driver. */
  fileProblem?(): string | undefined;
  /** Returns the problem with the servers of a shared queue, or undefined when healthy. Absent for a local queue. */
  serverProblem?(): string | undefined;
  /** Returns the number of completed tasks with unsynced rows. Only present for the `sqlite` driver. */
  unsynced?(): UnsyncedRows;
  /** Returns how many dead letters this process has evicted because of a bound. Absent for a shared queue. */
  evicted?(): number;
}

export interface QueueBounds {
  /** Maximum number of unsettled messages: waiting, delayed or in flight. */
  maxLength: number;
  /** Maximum memory for the bodies, failure reasons and attempt histories of all unsettled messages, in bytes. */
  maxBytes: number;
  maxKeys: number;
}

/** A queued task. `body` is the JSON text of an object with the fields `id`, `action`, `data` and `created_at`. */
export interface Message {
  id: string;
  body: string;
}

export interface IdempotencyKey {
  key: string;
  /** Hash of the submission's content, used to detect that a key is reused for a different submission. */
  fingerprint: string;
}

export interface KeyedSubmission extends IdempotencyKey {
  /** Creates the message with another id: that of an earlier `publish` with the same key whose outcome is unknown. */
  createMessage(id: string): Message;
}

/** A message that has been taken from the queue but not settled yet. */
export interface Delivery {
  readonly message: Message;
  /** Number of the message in order of acceptance, unique among all messages ever accepted by the queue. */
  readonly sequence: number;
  /** Acceptance time in milliseconds since the epoch. */
  readonly acceptedAt: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Number of earlier attempts that ended because their thread or process died. */
  readonly crashes: number;
  /** Whether a process died while the message was in flight, and no attempt has ended since. */
  readonly suspect: boolean;
}

export type Settlement =
  /** Completed: the message leaves the queue. */
  | { kind: 'ack' }
  /** Failed: the message is delivered again after `delayMs`, and the attempt is counted. */
  | { kind: 'retry'; delayMs: number; reason: string; failure: 'transient' | 'crash' }
  /** Postponed: the message is delivered again after `delayMs`, and the attempt is not counted. */
  | { kind: 'snooze'; delayMs: number; reason: string }
  /** Failed and not retried: the message becomes a dead letter with this number of `attempts`. */
  | { kind: 'discard'; attempts: number; reason: string; failure: Failure }
  /** Not processed: the message returns to the head of the queue, and the attempt is not counted. */
  | { kind: 'release' }
  /** Cancelled: the message leaves the queue, and no result row is stored. */
  | { kind: 'cancel' };

/** A `transient` error may not recur on the next attempt. A `crash` is the death of the thread or process. */
export type Failure = 'transient' | 'permanent' | 'crash';

export type SettlementOf<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>;

/** State change or progress of a task. `dueAt` is in milliseconds since the epoch. */
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

export interface EventSubject {
  id: string;
  /** First characters of the action's name. Absent if the event comes from a node of version 0.1.0. */
  action?: string | undefined;
  /** Time of the event in milliseconds since the epoch. */
  at: number;
}

/** Pause or resumption of the queue, at the time `at` in milliseconds since the epoch. */
export interface PauseEvent {
  event: 'paused' | 'resumed';
  at: number;
}

/** Counts of messages: accepted = completed + dead + dropped + cancelled + waiting + delayed + inFlight. */
export interface QueueCounts {
  accepted: number;
  completed: number;
  /** Number of dead letters that are stored. */
  dead: number;
  /** Number of dead letters that were evicted or purged. */
  dropped: number;
  cancelled: number;
  waiting: number;
  delayed: number;
  inFlight: number;
  /** Total size of unsettled messages, in bytes. */
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
