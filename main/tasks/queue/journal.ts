import type { DeadLetter, IdempotencyKey, Message, UnsyncedRows } from './queue.ts';

/** An unsettled message and its state. Times are milliseconds since the epoch. */
export interface Entry extends Message {
  /** Number in the order of arrival. */
  sequence: number;
  /** Position in the order of waiting; a retry gets a new one. */
  position: number;
  /** Memory of body and reason; see `heldBytes`. */
  bytes: number;
  attempts: number;
  crashes: number;
  /** Whether a process died while the message was in flight, and no attempt has ended since. */
  suspect: boolean;
  /** Why the last attempt failed. */
  reason: string | null;
  /** When the message may be delivered again; 0 if it is not delayed. */
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
 * Storage that makes a queue durable. Writes keep their order. A promise is fulfilled when its write survives the end of the
 * process; the writes of `accept`, `deadLetter` and `redrive` survive a loss of power as well. A rejected `accept` or `redrive`
 * wrote nothing. Any other failed write is retried.
 */
export interface Journal {
  /** @param record the submission's key, and `forgotten` the keys that were evicted for it */
  accept(entry: Entry, record?: KeyRecord, forgotten?: readonly string[]): Promise<void>;
  /**
   * Records the state of an entry. If the process dies after `running` was recorded, the entry becomes a suspect, or, if it
   * is one, is charged an attempt and a crash.
   */
  update(entry: Entry, running: boolean): Promise<void>;
  /** Deletes a message once its row is on disk. */
  complete(entry: Entry): Promise<void>;
  deadLetter(letter: DeadLetter): Promise<void>;
  /** Makes a dead letter a message again. */
  redrive(entry: Entry): Promise<void>;
  /** Deletes a dead letter. */
  purge(letter: DeadLetter): Promise<void>;
  /** Returns why nothing can be written, or undefined when the last write succeeded and the storage is in place. */
  problem(): string | undefined;
  unsynced(): UnsyncedRows;
  /** Retries failed writes, then closes the storage. @throws {Error} when a write fails again, or the storage is gone */
  close(): Promise<void>;
}

/** Contents of a queue, from which another one continues. */
export interface QueueSnapshot {
  /** In the order of waiting. */
  messages: readonly Omit<Entry, 'bytes'>[];
  /** Oldest first. */
  deadLetters: readonly DeadLetter[];
  /** Oldest first. */
  keys: readonly KeyRecord[];
}
