import { Database } from '../../../db/sqlite/database.ts';
import { type KeyRecord, QueuedMessages, type QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import type { Entry } from './backlog.ts';
import { LastWriteFailed } from './last-write-failed.ts';
import type { DeadLetter, UnsyncedRows } from './queue.ts';

/** Maximum wait for another program's lock on `queue.db`. Short, because the wait blocks the event loop. */
export const BUSY_TIMEOUT_MS = 100;
const RETRY_MS = 1000;
/**
 * Maximum number of completed messages whose task rows wait for a repeated sync to disk. Further messages evict the
 * oldest, which then stay in the file, so that their tasks run again at the next start.
 */
const MAX_UNSYNCED = 100_000;

interface Operation {
  write(): void;
  /** Whether the write must survive a power loss. */
  durable: boolean;
  written: PromiseWithResolvers<void>;
  /** Sequence number of the message. Undefined if a failed write must not be retried. */
  retryFor: number | undefined;
}

export type Journal = Omit<SqliteJournal, 'read' | 'problem' | 'unsynced'>;

/**
 * Stores a queue's changes in a SQLite file, in one transaction per event loop turn. When a method's promise resolves,
 * its write survives the death of the process. A rejected `accept`, `cancel`, `redrive`, `purgeAll` or `storePause`
 * wrote nothing. Any other failed write is retried.
 */
export class SqliteJournal {
  readonly #database: Database;
  readonly #messages: QueuedMessages;
  readonly #syncRows: () => Promise<void>;
  readonly #syncing = new Set<Promise<void>>();
  /** Sequence numbers of completed messages that are not deleted until their task rows are synced to disk. */
  readonly #unsynced = new Set<number>();
  #syncFailure = '';
  #operations: Operation[] = [];
  /** Failed writes to repeat, by the message's sequence number. A later write of a message replaces the earlier one. */
  readonly #failedWrites = new Map<number, () => void>();
  #retryTimer: NodeJS.Timeout | undefined;
  #lastFailure: string | undefined;
  #closed = false;

  constructor(path: string, syncRows: () => Promise<void>) {
    this.#database = new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS });
    this.#messages = new QueuedMessages(this.#database);
    this.#syncRows = syncRows;
  }

  read(): QueueSnapshot {
    return this.#messages.read();
  }

  /** Stores an accepted message and its idempotency key, and deletes the records of evicted keys. */
  accept(entry: Entry, record?: KeyRecord, evictedKeys: readonly string[] = []): Promise<void> {
    return this.#write(true, undefined, () => {
      this.#messages.insert(entry);
      for (const key of evictedKeys) this.#messages.deleteKey(key);
      if (record !== undefined) this.#messages.insertKey(record);
    });
  }

  /** Stores a message's state. If `running` is true, the message is a suspect if the process dies. */
  update(entry: Entry, running: boolean): Promise<void> {
    return this.#write(false, entry.sequence, () => this.#messages.update(entry, running));
  }

  /** Deletes a message after its row is synced, so that a power loss cannot destroy both the message and its row. */
  complete({ sequence }: Entry): Promise<void> {
    return this.#track(this.#deleteOnceSynced([sequence]));
  }

  /** Deletes a cancelled message that has no running attempt. A failed write is not retried. */
  cancel({ sequence }: Entry): Promise<void> {
    return this.#write(true, undefined, () => this.#messages.delete(sequence));
  }

  /** Deletes a message whose running attempt was cancelled. A failed write is retried. */
  cancelRunning({ sequence }: Entry): Promise<void> {
    return this.#write(true, sequence, () => this.#messages.delete(sequence));
  }

  deadLetter(letter: DeadLetter): Promise<void> {
    return this.#write(true, letter.sequence, () => {
      this.#messages.delete(letter.sequence);
      this.#messages.insertDeadLetter(letter);
    });
  }

  redrive(entries: readonly Entry[]): Promise<void> {
    return this.#write(true, undefined, () => {
      for (const entry of entries) {
        this.#messages.deleteDeadLetter(entry.sequence);
        this.#messages.insert(entry);
      }
    });
  }

  /** Deletes all given dead letters, or none if the write fails. */
  purgeAll(letters: readonly DeadLetter[]): Promise<void> {
    return this.#write(false, undefined, () => {
      for (const { sequence } of letters) this.#messages.deleteDeadLetter(sequence);
    });
  }

  purge({ sequence }: DeadLetter): Promise<void> {
    return this.#write(false, sequence, () => {
      this.#messages.delete(sequence);
      this.#messages.deleteDeadLetter(sequence);
    });
  }

  storePause(isPaused: boolean): Promise<void> {
    return this.#write(true, undefined, () => this.#messages.storePause(isPaused));
  }

  /** Returns the reason why writes fail, or undefined if the last write succeeded and the file can be read. */
  problem(): string | undefined {
    try {
      this.#database.probe();
      return this.#lastFailure;
    } catch (error) {
      return (error as Error).message;
    }
  }

  unsynced(): UnsyncedRows {
    return { tasks: this.#unsynced.size, reason: this.#syncFailure };
  }

  /** Retries failed writes and closes the file. @throws {LastWriteFailed} if a write fails again or the file is gone */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
    await Promise.allSettled(this.#syncing);
    await this.#retrySync();
    this.#commit();
    const problem = this.problem();
    try {
      if (problem !== undefined) throw new LastWriteFailed(problem, this.#storedSequences());
    } finally {
      this.#database.close();
    }
  }

  /** Reads through the open connection, because opening another connection may fail on a full disk. */
  #storedSequences(): ReadonlySet<number> {
    try {
      return this.#messages.sequences();
    } catch {
      return new Set();
    }
  }

  async #track(syncing: Promise<void>): Promise<void> {
    this.#syncing.add(syncing);
    try {
      await syncing;
    } finally {
      this.#syncing.delete(syncing);
    }
  }

  async #deleteOnceSynced(sequences: readonly number[]): Promise<void> {
    try {
      await this.#syncRows();
    } catch (error) {
      this.#syncFailure = (error as Error).message;
      for (const sequence of sequences) this.#unsynced.add(sequence);
      for (const oldest of this.#unsynced) {
        if (this.#unsynced.size <= MAX_UNSYNCED) break;
        this.#unsynced.delete(oldest);
      }
      this.#retryLater();
      throw error;
    }
    for (const sequence of sequences) this.#unsynced.delete(sequence);
    await Promise.all(sequences.map((sequence) => this.#write(false, sequence, () => this.#messages.delete(sequence))));
  }

  async #retrySync(): Promise<void> {
    if (this.#unsynced.size > 0) await this.#deleteOnceSynced([...this.#unsynced]).catch(() => {});
  }

  #write(durable: boolean, retryFor: number | undefined, write: () => void): Promise<void> {
    const written = Promise.withResolvers<void>();
    this.#operations.push({ write, durable, written, retryFor });
    if (this.#operations.length === 1) setImmediate(() => this.#commit());
    return written.promise;
  }

  #commit(): void {
    const operations = this.#operations;
    const idle = operations.length === 0 && this.#failedWrites.size === 0;
    if (idle && this.#lastFailure === undefined) return;
    this.#operations = [];
    // After a failed transaction, does not wait for locks, because the wait blocks the event loop.
    const wait = this.#lastFailure === undefined ? BUSY_TIMEOUT_MS : 0;
    const durable = idle || this.#failedWrites.size > 0 || operations.some((operation) => operation.durable);
    try {
      this.#database.statement(`PRAGMA busy_timeout = ${wait}`).get();
      this.#database.transaction(durable, () => {
        // If no write is pending, rewrites an unchanged page to test whether the file is writable.
        if (idle) this.#database.statement('PRAGMA application_id = 0').run();
        for (const write of this.#failedWrites.values()) write();
        for (const { write } of operations) write();
      });
      this.#lastFailure = undefined;
      this.#failedWrites.clear();
      for (const { written } of operations) written.resolve();
    } catch (error) {
      this.#lastFailure = (error as Error).message;
      for (const { write, written, retryFor } of operations) {
        if (retryFor !== undefined) {
          // Deletes an earlier failed write of the message, because `set` alone would keep its position in the order.
          this.#failedWrites.delete(retryFor);
          this.#failedWrites.set(retryFor, write);
        }
        written.reject(error);
      }
      this.#retryLater();
    }
  }

  #retryLater(): void {
    if (this.#closed) return;
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = undefined;
      void this.#track(this.#retrySync().then(() => this.#commit()));
    }, RETRY_MS);
  }
}
