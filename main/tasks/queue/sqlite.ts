import { Database } from '../../../db/sqlite/database.ts';
import { type KeyRecord, QueuedMessages, type QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import type { Entry, Journal } from './journal.ts';
import { MemoryQueue, type MemoryQueueOptions, type QueueBounds } from './memory.ts';
import type { DeadLetter, UnsyncedRows } from './queue.ts';

/**
 * Wait for a lock on `queue.db` that another program holds, such as a backup or a shell. Short, because the wait blocks the event
 * loop. After a failed transaction, the next ones do not wait until one succeeds.
 */
export const BUSY_TIMEOUT_MS = 100;
/** Delay before failed writes and syncs are retried. */
const RETRY_MS = 1000;
/** Most completed messages that wait for a retried sync. The tasks of evicted ones, the oldest, run again at the next start. */
const MAX_UNSYNCED = 100_000;

export interface SqliteQueueOptions extends Pick<MemoryQueueOptions, 'deadLetters' | 'onEvent'> {
  /** Path of a migrated `queue.db` that no other process uses. */
  path: string;
  bounds: QueueBounds;
  /** Resolves when the rows of all tasks that were acknowledged before the call survive a power loss. */
  rowsOnDisk: () => Promise<void>;
}

/**
 * Opens the durable driver, which confirms a change only once it is stored in a SQLite file, and restores the messages of the
 * previous process.
 *
 * @throws {DatabaseUnavailable} if the file cannot be opened
 */
export function openSqliteQueue({ path, bounds, rowsOnDisk, ...options }: SqliteQueueOptions): MemoryQueue {
  const journal = new SqliteJournal(new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS }), rowsOnDisk);
  return new MemoryQueue(bounds, { ...options, journal, snapshot: journal.read() });
}

/** The last changes of a queue could not be written. */
export class LastWriteFailed extends Error {
  override name = 'LastWriteFailed';
  /** Sequences of all messages in the file. */
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
  retryFor?: number;
}

/**
 * Stores a queue's changes, all of one event loop turn in one transaction (group commit), so that a hundred submissions that arrive
 * together wait for the disk once.
 */
class SqliteJournal implements Journal {
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
  /**
   * Failed writes to retry, by sequence of the message. The latest write of a message includes all earlier ones. The next
   * transaction begins with them, before newer writes.
   */
  readonly #failedWrites = new Map<number, () => void>();
  #retryTimer: NodeJS.Timeout | undefined;
  /** Reason of the last failed transaction; undefined once one succeeds. */
  #failure: string | undefined;
  #closed = false;

  constructor(database: Database, rowsOnDisk: () => Promise<void>) {
    this.#database = database;
    this.#messages = new QueuedMessages(database);
    this.#rowsOnDisk = rowsOnDisk;
  }

  read(): QueueSnapshot {
    return this.#messages.read();
  }

  accept(entry: Entry, record?: KeyRecord, evictedKeys: readonly string[] = []): Promise<void> {
    return this.#write(true, () => {
      this.#messages.insert(entry);
      for (const key of evictedKeys) this.#messages.deleteKey(key);
      if (record !== undefined) this.#messages.insertKey(record);
    });
  }

  update(entry: Entry, running: boolean): Promise<void> {
    return this.#write(false, () => this.#messages.update(entry, running), entry.sequence);
  }

  /** Deletes a message once its row is synced. They are in different files, so a power loss could otherwise lose only the row. */
  complete({ sequence }: Entry): Promise<void> {
    return this.#track(this.#deleteOnceSynced(sequence));
  }

  deadLetter(letter: DeadLetter): Promise<void> {
    const write = () => {
      this.#messages.delete(letter.sequence);
      this.#messages.insertDeadLetter(letter);
    };
    return this.#write(true, write, letter.sequence);
  }

  redrive(entry: Entry): Promise<void> {
    return this.#write(true, () => {
      this.#messages.deleteDeadLetter(entry.sequence);
      this.#messages.insert(entry);
    });
  }

  purge({ sequence }: DeadLetter): Promise<void> {
    const write = () => {
      this.#messages.delete(sequence);
      this.#messages.deleteDeadLetter(sequence);
    };
    return this.#write(false, write, sequence);
  }

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

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
    await Promise.allSettled(this.#syncing);
    await this.#retrySync();
    this.#commit();
    const problem = this.problem();
    const failure = problem === undefined ? undefined : new LastWriteFailed(problem, this.#stored());
    this.#database.close();
    if (failure !== undefined) throw failure;
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
    await this.#write(false, () => this.#messages.delete(sequence), sequence);
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

  async #retry(): Promise<void> {
    await this.#retrySync();
    this.#commit();
  }

  #write(durable: boolean, write: () => void, retryFor?: number): Promise<void> {
    const written = Promise.withResolvers<void>();
    this.#operations.push({ write, durable, written, ...(retryFor !== undefined && { retryFor }) });
    if (this.#operations.length === 1) setImmediate(() => this.#commit());
    return written.promise;
  }

  #commit(): void {
    const operations = this.#operations;
    const idle = operations.length === 0 && this.#failedWrites.size === 0;
    if (idle && this.#failure === undefined) return;
    this.#operations = [];
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
      for (const operation of operations) this.#reject(operation, error);
      this.#retryLater();
    }
  }

  #reject({ write, written, retryFor }: Operation, error: unknown): void {
    if (retryFor !== undefined) {
      // Moved to the end, so that it follows the writes that it may undo.
      this.#failedWrites.delete(retryFor);
      this.#failedWrites.set(retryFor, write);
    }
    written.reject(error);
  }

  #retryLater(): void {
    if (this.#closed) return;
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = undefined;
      void this.#track(this.#retry());
    }, RETRY_MS);
  }
}
