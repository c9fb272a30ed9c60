import { Database } from '../../../db/database.ts';
import { QueuedMessages } from '../../../db/queued-messages.ts';
import type { DeadLetters } from './dead-letters.ts';
import type { DeadLetter } from './driver.ts';
import type { Entry, Journal, Recovered } from './journal.ts';
import { MemoryQueue, type QueueBounds } from './memory.ts';

/** A lock on the queue's own file is somebody's backup or shell: worth a short wait, though it holds up every client. */
const BUSY_TIMEOUT_MS = 100;

/**
 * The durable driver: what is accepted, and what becomes of it, is in a SQLite file before anybody is told. Opening it
 * takes up what the last process left there.
 *
 * @param path a `queue.db` that is migrated
 * @throws {DatabaseUnavailable} when the file cannot be opened
 */
export function openSqliteQueue(path: string, bounds: QueueBounds, deadLetters?: DeadLetters): MemoryQueue {
  const journal = new SqliteJournal(new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS }));
  return new MemoryQueue(bounds, deadLetters, { journal, recovered: journal.recover() });
}

interface Operation {
  write(): void;
  durable: boolean;
  written: PromiseWithResolvers<void>;
}

/**
 * Writes a queue's entries down, all of one turn of the event loop in one transaction (group commit): a hundred
 * submissions that arrive together wait for the disk once.
 */
class SqliteJournal implements Journal {
  readonly #database: Database;
  readonly #messages: QueuedMessages;
  #operations: Operation[] = [];

  constructor(database: Database) {
    this.#database = database;
    this.#messages = new QueuedMessages(database);
  }

  recover(): Recovered {
    const { messages, deadLetters } = this.#messages.recover();
    return {
      entries: messages.map(({ id, body, first_at: firstAt, due_at: dueAt, ...row }) => ({
        ...row,
        message: { id, body },
        bytes: Buffer.byteLength(body),
        firstAt,
        dueAt,
      })),
      deadLetters: deadLetters.map(({ seq, id, body, reason, attempts, first_at, last_at }) => ({
        seq,
        message: { id, body },
        reason,
        attempts,
        firstAt: first_at,
        lastAt: last_at,
      })),
    };
  }

  accept({ message: { id, body }, seq, turn, attempts, crashes, firstAt }: Entry): Promise<void> {
    const row = { seq, turn, id, body, attempts, crashes, due_at: 0, first_at: firstAt };
    return this.#write(true, () => this.#messages.insert(row));
  }

  begin({ seq }: Entry): Promise<void> {
    return this.#write(false, () => this.#messages.setRunning(seq, true));
  }

  release({ seq }: Entry): Promise<void> {
    return this.#write(false, () => this.#messages.setRunning(seq, false));
  }

  complete({ seq }: Entry): Promise<void> {
    return this.#write(false, () => this.#messages.delete(seq));
  }

  postpone({ seq, turn, attempts, crashes }: Entry, dueAt: number): Promise<void> {
    return this.#write(false, () => this.#messages.postpone({ seq, turn, attempts, crashes, due_at: dueAt }));
  }

  bury({ seq }: Entry, letter: DeadLetter, dropped: readonly DeadLetter[]): Promise<void> {
    const { message, reason, attempts, firstAt, lastAt } = letter;
    return this.#write(true, () => {
      this.#messages.delete(seq);
      this.#messages.insertDeadLetter({ seq, ...message, reason, attempts, first_at: firstAt, last_at: lastAt });
      for (const old of dropped) this.#messages.deleteDeadLetter(old.seq);
    });
  }

  async close(): Promise<void> {
    this.#commit();
    this.#database.close();
  }

  #write(durable: boolean, write: () => void): Promise<void> {
    const written = Promise.withResolvers<void>();
    this.#operations.push({ write, durable, written });
    if (this.#operations.length === 1) setImmediate(() => this.#commit());
    return written.promise;
  }

  #commit(): void {
    const operations = this.#operations;
    if (operations.length === 0) return;
    this.#operations = [];
    const durable = operations.some((operation) => operation.durable);
    try {
      this.#database.transaction(durable, () => {
        for (const { write } of operations) write();
      });
      for (const { written } of operations) written.resolve();
    } catch (error) {
      for (const { written } of operations) written.reject(error);
    }
  }
}
