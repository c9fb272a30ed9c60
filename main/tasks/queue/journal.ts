import type { DeadLetter, IdempotencyKey, Message, UnsyncedRows } from './queue.ts';

/** An unsettled message and its state. Times are milliseconds since the epoch. */
export interface Entry extends Message {
  /** The message's number in the order of arrival. */
  sequence: number;
  /** Position in the order of delivery; a retry gets a new one. */
  position: number;
  /** Memory of body and reason in bytes; see `heldBytes`. */
  bytes: number;
  attempts: number;
  crashes: number;
  /** Whether a process died while the message was in flight, and no attempt has ended since. */
  suspect: boolean;
  /** Reason of the last failure. */
  reason: string | null;
  /** Time of the next delivery; 0 if the message is not delayed. */
  dueAt: number;
  acceptedAt: number;
}

/** An idempotency key and its task. */
export interface KeyRecord extends IdempotencyKey {
  taskId: string;
  /** Milliseconds since the epoch. */
  acceptedAt: number;
}

/**
 * Storage that makes a queue durable. Writes keep their order. A promise resolves when its write survives the death of the
 * process; the writes of `accept`, `deadLetter` and `redrive` survive a power loss as well. A rejected `accept` or `redrive`
 * wrote nothing. Any other failed write is retried.
 */
export interface Journal {
  /**
   * Stores an accepted message.
   *
   * @param record idempotency key of the submission
   * @param evictedKeys keys that were evicted for it
   */
  accept(entry: Entry, record?: KeyRecord, evictedKeys?: readonly string[]): Promise<void>;
  /**
   * Records the state of an entry. If the process dies after `running` was recorded, the entry becomes a suspect; an
   * entry that is one already is charged an attempt and a crash.
   */
  update(entry: Entry, running: boolean): Promise<void>;
  /** Deletes a completed message once its row is on disk. */
  complete(entry: Entry): Promise<void>;
  /** Replaces a message by its dead letter. */
  deadLetter(letter: DeadLetter): Promise<void>;
  /** Replaces a dead letter by a message. */
  redrive(entry: Entry): Promise<void>;
  /** Deletes a dead letter. */
  purge(letter: DeadLetter): Promise<void>;
  /** Returns the reason why writes fail, or undefined if the last write succeeded and the storage exists. */
  problem(): string | undefined;
  unsynced(): UnsyncedRows;
  /** Retries failed writes, then closes the storage. @throws {Error} if a write fails again, or the storage is gone */
  close(): Promise<void>;
}

/** Contents of a queue, which another queue restores. */
export interface QueueSnapshot {
  /** Messages in the order of delivery. */
  messages: readonly Omit<Entry, 'bytes'>[];
  /** Dead letters, oldest first. */
  deadLetters: readonly DeadLetter[];
  /** Idempotency keys, oldest first. */
  keys: readonly KeyRecord[];
}
