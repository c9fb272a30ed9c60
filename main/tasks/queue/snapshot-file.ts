import { Database } from '../../../db/sqlite/database.ts';
import { QueuedMessages } from '../../../db/sqlite/queued-messages.ts';
import type { QueueSnapshot } from './journal.ts';
import { BUSY_TIMEOUT_MS } from './sqlite.ts';

/** Snapshot of a memory queue in `queue.db`: written at an orderly stop, read by the next start, cleared when that starts to process. */
export class SnapshotFile {
  readonly #database: Database;
  readonly #messages: QueuedMessages;

  /** @param path a `queue.db` that is migrated, and that no other process works on */
  constructor(path: string) {
    this.#database = new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS });
    this.#messages = new QueuedMessages(this.#database);
  }

  /** Returns the contents, and leaves them in the file. @throws {DatabaseUnavailable} when the file cannot be opened */
  read(): QueueSnapshot {
    return this.#messages.read();
  }

  /** Empties the file. @throws {Error} when it could not be written */
  clear(): void {
    this.#database.transaction(true, () => this.#messages.clear());
  }

  /** Replaces the contents by everything that a queue holds. @throws {Error} when it could not be written */
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
