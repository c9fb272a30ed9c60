import { Database } from '../../../db/database.ts';
import { QueuedMessages } from '../../../db/queued-messages.ts';
import type { Holdings } from './journal.ts';
import { BUSY_TIMEOUT_MS } from './sqlite.ts';

/** Contents that a memory queue leaves in `queue.db` for the next process: written at an orderly stop, cleared when their processing starts. */
export class Spill {
  readonly #database: Database;
  readonly #messages: QueuedMessages;

  /** @param path a `queue.db` that is migrated, and that no other process works on */
  constructor(path: string) {
    this.#database = new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS });
    this.#messages = new QueuedMessages(this.#database);
  }

  /** Returns the contents, and leaves them in the file. @throws {DatabaseUnavailable} when the file cannot be opened */
  read(): Holdings {
    return this.#messages.read();
  }

  /** Empties the file. @throws {Error} when it could not be written */
  clear(): void {
    this.#database.transaction(true, () => this.#messages.clear());
  }

  /** Replaces the contents by everything that a queue holds. @throws {Error} when it could not be written */
  put({ messages, deadLetters, keys }: Holdings): void {
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
