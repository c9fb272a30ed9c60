import type { DeadLetter, IdempotencyKey, Message, UnsyncedRows } from './driver.ts';

/** A message in a queue, with all that the queue knows of it. Times are milliseconds since the epoch. */
export interface Entry extends Message {
  /** Its number, for good. */
  seq: number;
  /** Its place in the order of waiting; a retry gets a new one. */
  turn: number;
  /** Memory of body and reason; see `heldBytes`. */
  bytes: number;
  attempts: number;
  crashes: number;
  /** Why the last attempt failed. */
  reason: string | null;
  /** When it may be tried again; 0 when it waits for nothing. */
  dueAt: number;
  firstAt: number;
  /** See `Delivery`. It is not written down. */
  suspect?: boolean;
}

/** A submission that is not taken twice, and the task that stands for it. */
export interface KeyRecord extends IdempotencyKey {
  taskId: string;
  /** Milliseconds since the epoch. */
  acceptedAt: number;
}

/**
 * Where a queue writes down what is to outlive the process. What is written in order is kept in order; each promise
 * is fulfilled when its entry is safe from the end of the process, that of `accept`, `bury` and `revive` from a loss
 * of power, too; that of `complete` waits for the task's row first. What a message was accepted or revived by is not done when its promise is rejected; everything else is
 * written as soon as it can be.
 */
export interface Journal {
  /** @param record the submission's key, and `forgotten` the keys that left for it */
  accept(entry: Entry, record?: KeyRecord, forgotten?: readonly string[]): Promise<void>;
  /** How far the entry has come. While `running`, the process may die of it. */
  update(entry: Entry, running: boolean): Promise<void>;
  complete(entry: Entry): Promise<void>;
  bury(letter: DeadLetter): Promise<void>;
  /** What was given up is in the queue again. */
  revive(entry: Entry): Promise<void>;
  /** A dead letter is dropped. */
  forget(letter: DeadLetter): Promise<void>;
  /** Returns why nothing can be written, or undefined when the last write succeeded and the storage is in place. */
  problem(): string | undefined;
  unsynced(): UnsyncedRows;
  /** Retries failed writes, then closes the storage. @throws {Error} when a write fails again, or the storage is gone */
  close(): Promise<void>;
}

/** All that a queue holds, so that another one can go on with it. */
export interface Holdings {
  /** In the order of waiting. */
  messages: readonly Omit<Entry, 'bytes'>[];
  /** Oldest first. */
  deadLetters: readonly DeadLetter[];
  /** Oldest first. */
  keys: readonly KeyRecord[];
  /** The `seq` of the messages that were being worked on when their process died. */
  cut: readonly number[];
}
