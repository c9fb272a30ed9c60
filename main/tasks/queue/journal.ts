import type { DeadLetter, KeyRecord, StoredMessage } from '../../../db/sqlite/queued-messages.ts';
import type { UnsyncedRows } from './queue.ts';

/** An unsettled message and its state. */
export interface Entry extends StoredMessage {
  /** Memory of body and reason in bytes; see `heldBytes`. */
  bytes: number;
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
