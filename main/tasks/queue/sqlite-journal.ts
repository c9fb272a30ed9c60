import { Database } from '../../../db/sqlite/database.ts';
import { type KeyRecord, QueuedMessages, type QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import type { Entry } from './backlog.ts';
import type { DeadLetter, UnsyncedRows } from './queue.ts';

/** Wait for a lock on `queue.db` that another program holds, such as a backup. Short, because the wait blocks the event loop. */
export const BUSY_TIMEOUT_MS = 100;
/** Delay before failed writes and syncs are retried. */
const RETRY_MS = 1000;
/** Most completed messages that wait for a retried sync. The tasks of evicted ones, the oldest, run again at the next start. */
const MAX_UNSYNCED = 100_000;

/** The last changes of a queue could not be written. `stored` has the sequences of all messages in the file. */
export class LastWriteFailed extends Error {
  override name = 'LastWriteFailed';
  readonly stored: ReadonlySet<number>;

  constructor(reason: string, stored: ReadonlySet<number>) {
    super(reason);
    this.stored = stored;
  }
}

interface Operation {
  write(): void;
  /** Whether the write must survive a power loss. */
  durable: boolean;
  written: PromiseWithResolvers<void>;
  /** Sequence of the message if a failed write is retried. Undefined if the caller rolls the change back. */
  retryFor: number | undefined;
}

export type Journal = Omit<SqliteJournal, 'read' | 'problem' | 'unsynced'>;

/**
 * Makes a queue durable. All changes of one event loop turn are stored in one transaction (group commit), so that a hundred
 * submissions that arrive together wait for the disk once. Writes keep their order. A promise resolves when its write survives the
 * death of the process; the writes of `accept`, `deadLetter` and `redrive` survive a power loss as well. A rejected `accept` or
 * `redrive` wrote nothing. Any other failed write is retried.
 */
export class SqliteJournal {
  readonly #database: Database;
  readonly #messages: QueuedMessages;
  readonly #rowsOnDisk: () => Promise<void>;
  /** Pending syncs, each with the writes that follow it. */
  readonly #syncing = new Set<Promise<void>>();
  /** Sequences of completed messages whose sync failed. Each is deleted once a later sync succeeds. */
  readonly #unsynced = new Set<number>();
  /** Reason of the last failed sync. */
  #syncFailure = '';
  #operations: Operation[] = [];
  /** Failed writes by sequence of the message, whose latest one includes all earlier ones. The next transaction begins with them. */
  readonly #failedWrites = new Map<number, () => void>();
  #retryTimer: NodeJS.Timeout | undefined;
  /** Reason of the last failed transaction; undefined once one succeeds. */
  #failure: string | undefined;
  #closed = false;

  /** @param rowsOnDisk resolves when the rows of all tasks that were acknowledged before the call survive a power loss */
  constructor(path: string, rowsOnDisk: () => Promise<void>) {
    this.#database = new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS });
    this.#messages = new QueuedMessages(this.#database);
    this.#rowsOnDisk = rowsOnDisk;
  }

  /** Reads the stored queue of the previous process. */
  read(): QueueSnapshot {
    return this.#messages.read();
  }

  /** Stores an accepted message and its idempotency key. @param evictedKeys keys that were evicted for it */
  accept(entry: Entry, record?: KeyRecord, evictedKeys: readonly string[] = []): Promise<void> {
    return this.#write(true, undefined, () => {
      this.#messages.insert(entry);
      for (const key of evictedKeys) this.#messages.deleteKey(key);
      if (record !== undefined) this.#messages.insertKey(record);
    });
  }

  /**
   * Records the state of an entry. If the process dies after `running` was recorded, the entry becomes a suspect; an entry that
   * is one already is charged an attempt and a crash.
   */
  update(entry: Entry, running: boolean): Promise<void> {
    return this.#write(false, entry.sequence, () => this.#messages.update(entry, running));
  }

  /** Deletes a message once its row is synced. They are in different files, so a power loss could otherwise lose only the row. */
  complete({ sequence }: Entry): Promise<void> {
    return this.#track(this.#deleteOnceSynced(sequence));
  }

  /** Replaces a message by its dead letter. */
  deadLetter(letter: DeadLetter): Promise<void> {
    return this.#write(true, letter.sequence, () => {
      this.#messages.delete(letter.sequence);
      this.#messages.insertDeadLetter(letter);
    });
  }

  /** Replaces a dead letter by a message. */
  redrive(entry: Entry): Promise<void> {
    return this.#write(true, undefined, () => {
      this.#messages.deleteDeadLetter(entry.sequence);
      this.#messages.insert(entry);
    });
  }

  purge({ sequence }: DeadLetter): Promise<void> {
    return this.#write(false, sequence, () => {
      this.#messages.delete(sequence);
      this.#messages.deleteDeadLetter(sequence);
    });
  }

  /** Returns the reason why writes fail, or undefined if the last write succeeded and the storage exists. */
  problem(): string | undefined {
    try {
      this.#database.probe();
      return this.#failure;
    } catch (error) {
      return (error as Error).message;
    }
  }

  unsynced(): UnsyncedRows {
    return { tasks: this.#unsynced.size, reason: this.#syncFailure };
  }

  /** Retries failed writes, then closes the file. @throws {LastWriteFailed} if a write fails again, or the file is gone */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
    await Promise.allSettled(this.#syncing);
    await this.#retrySync();
    this.#commit();
    const problem = this.problem();
    try {
      if (problem !== undefined) throw new LastWriteFailed(problem, this.#stored());
    } finally {
      this.#database.close();
    }
  }

  /** Reads the stored sequences on the open connection, because a full disk may prevent opening the file again. */
  #stored(): ReadonlySet<number> {
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

  async #deleteOnceSynced(sequence: number): Promise<void> {
    try {
      await this.#rowsOnDisk();
    } catch (error) {
      this.#syncFailure = (error as Error).message;
      this.#unsynced.add(sequence);
      const [oldest] = this.#unsynced;
      if (this.#unsynced.size > MAX_UNSYNCED && oldest !== undefined) this.#unsynced.delete(oldest);
      this.#retryLater();
      throw error;
    }
    await this.#write(false, sequence, () => this.#messages.delete(sequence));
  }

  /** Retries a failed sync. If it succeeds, the next transaction deletes the completed messages. */
  async #retrySync(): Promise<void> {
    const sequences = [...this.#unsynced];
    if (sequences.length === 0) return;
    try {
      await this.#rowsOnDisk();
    } catch (error) {
      this.#syncFailure = (error as Error).message;
      this.#retryLater();
      return;
    }
    for (const sequence of sequences) {
      this.#unsynced.delete(sequence);
      this.#failedWrites.set(sequence, () => this.#messages.delete(sequence));
    }
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
    if (idle && this.#failure === undefined) return;
    this.#operations = [];
    // After a failed transaction, the next ones do not wait until one succeeds.
    const wait = this.#failure === undefined ? BUSY_TIMEOUT_MS : 0;
    const durable = idle || this.#failedWrites.size > 0 || operations.some((operation) => operation.durable);
    try {
      this.#database.statement(`PRAGMA busy_timeout = ${wait}`).get();
      this.#database.transaction(durable, () => {
        // Without pending writes, an unchanged page is written to test the file.
        if (idle) this.#database.statement('PRAGMA application_id = 0').run();
        for (const write of this.#failedWrites.values()) write();
        for (const { write } of operations) write();
      });
      this.#failure = undefined;
      this.#failedWrites.clear();
      for (const { written } of operations) written.resolve();
    } catch (error) {
      this.#failure = (error as Error).message;
      for (const { write, written, retryFor } of operations) {
        if (retryFor !== undefined) {
          // Moved to the end, so that it follows the writes that it may undo.
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
