import { Database } from '../../../db/sqlite/database.ts';
import { QueuedMessages, type QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import { BUSY_TIMEOUT_MS } from './sqlite.ts';

/** Snapshot of a memory queue in `queue.db`: written at an orderly stop, read at the next start, and cleared before the first delivery. */
export class SnapshotFile {
  readonly #database: Database;
  readonly #messages: QueuedMessages;

  /** @param path a migrated `queue.db` that no other process uses */
  constructor(path: string) {
    this.#database = new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS });
    this.#messages = new QueuedMessages(this.#database);
  }

  /** Reads the snapshot, without clearing it. @throws {DatabaseUnavailable} if the file cannot be opened */
  read(): QueueSnapshot {
    return this.#messages.read();
  }

  /** Deletes the snapshot. @throws {Error} if the file cannot be written */
  clear(): void {
    this.#database.transaction(true, () => this.#messages.clear());
  }

  /** Replaces the snapshot. @throws {Error} if the file cannot be written */
  put({ messages, deadLetters, keys }: QueueSnapshot): void {
    this.#database.transaction(true, () => {
      this.#messages.clear();
      for (const entry of messages) this.#messages.insert(entry);
      for (const letter of deadLetters) this.#messages.insertDeadLetter(letter);
      for (const record of keys) this.#messages.insertKey(record);
    });
  }

  close(): void {
    this.#database.close();
  }
}
