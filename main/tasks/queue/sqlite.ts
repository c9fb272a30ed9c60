import { Database } from '../../../db/sqlite/database.ts';
import { QueuedMessages } from '../../../db/sqlite/queued-messages.ts';
import type { Entry, Journal, KeyRecord, QueueSnapshot } from './journal.ts';
import { MemoryQueue, type MemoryQueueOptions, type QueueBounds } from './memory.ts';
import type { DeadLetter, UnsyncedRows } from './queue.ts';

/**
 * A lock on the queue's own file is somebody's backup or shell: worth a short wait, though it holds up every client. Once
 * that was in vain nobody is held up again until the lock is gone.
 */
export const BUSY_TIMEOUT_MS = 100;
/** Delay before failed writes and syncs are retried. */
const RETRY_MS = 1000;
/** Most completed messages that wait for a retried sync. The oldest are evicted past this: their tasks run again after the next start. */
const MAX_UNSYNCED = 100_000;

export interface SqliteQueueOptions extends Pick<MemoryQueueOptions, 'deadLetters' | 'onEvent'> {
  /** A `queue.db` that is migrated, and that no other process works on. */
  path: string;
  bounds: QueueBounds;
  /** Fulfilled when the rows of all tasks that were acknowledged before the call are safe from a loss of power. */
  rowsOnDisk: () => Promise<void>;
}

/**
 * The durable driver: what is accepted, and what becomes of it, is in a SQLite file before anybody is told. Opening it
 * takes up what the last process left there.
 *
 * @throws {DatabaseUnavailable} when the file cannot be opened
 */
export function openSqliteQueue({ path, bounds, rowsOnDisk, ...options }: SqliteQueueOptions): MemoryQueue {
  const journal = new SqliteJournal(new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS }), rowsOnDisk);
  return new MemoryQueue(bounds, { ...options, journal, snapshot: journal.read() });
}

/** The last changes of a queue could not be written. */
export class LastWriteFailed extends Error {
  override name = 'LastWriteFailed';
  /** The `seq` of every message in the file. */
  readonly stored: ReadonlySet<number>;

  constructor(reason: string, stored: ReadonlySet<number>) {
    super(reason);
    this.stored = stored;
  }
}

interface Operation {
  write(): void;
  durable: boolean;
  written: PromiseWithResolvers<void>;
  /** The message it is about, where it is not taken back when it could not be written. */
  owedFor?: number;
}

/**
 * Writes a queue's entries down, all of one turn of the event loop in one transaction (group commit): a hundred
 * submissions that arrive together wait for the disk once.
 */
class SqliteJournal implements Journal {
  readonly #database: Database;
  readonly #messages: QueuedMessages;
  readonly #rowsOnDisk: () => Promise<void>;
  /** Syncs under way, each with the writes that follow it. */
  readonly #syncing = new Set<Promise<void>>();
  /** The `seq` of completed messages whose sync failed. A message is deleted only once a later sync succeeds. */
  readonly #unsynced = new Set<number>();
  /** Why the last sync failed. */
  #syncFailure = '';
  #operations: Operation[] = [];
  /**
   * What has happened and the file would not take, by the number of the message; the latest stands for all before it.
   * It goes with the next transaction, before everything that is newer.
   */
  readonly #owed = new Map<number, () => void>();
  #retryTimer: NodeJS.Timeout | undefined;
  /** Why the last transaction failed; undefined once one succeeds. */
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

  accept(entry: Entry, record?: KeyRecord, forgotten: readonly string[] = []): Promise<void> {
    return this.#write(true, () => {
      this.#messages.insert(entry);
      for (const key of forgotten) this.#messages.deleteKey(key);
      if (record !== undefined) this.#messages.insertKey(record);
    });
  }

  update(entry: Entry, running: boolean): Promise<void> {
    return this.#write(false, () => this.#messages.update(entry, running), entry.sequence);
  }

  /** The message stays until its row is safe: the two are in different files, and either could be lost without the other. */
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
    await this.#syncOwed();
    this.#commit();
    const problem = this.problem();
    const failure = problem === undefined ? undefined : new LastWriteFailed(problem, this.#stored());
    this.#database.close();
    if (failure !== undefined) throw failure;
  }

  /** Read on the open connection: on a full disk, the file cannot be opened again. */
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

  /** Retries a failed sync. Once it succeeds, the deletion of each completed message goes with the next transaction. */
  async #syncOwed(): Promise<void> {
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
      this.#owed.set(sequence, () => this.#messages.delete(sequence));
    }
  }

  async #retry(): Promise<void> {
    await this.#syncOwed();
    this.#commit();
  }

  #write(durable: boolean, write: () => void, owedFor?: number): Promise<void> {
    const written = Promise.withResolvers<void>();
    this.#operations.push({ write, durable, written, ...(owedFor !== undefined && { owedFor }) });
    if (this.#operations.length === 1) setImmediate(() => this.#commit());
    return written.promise;
  }

  #commit(): void {
    const operations = this.#operations;
    const idle = operations.length === 0 && this.#owed.size === 0;
    if (idle && this.#failure === undefined) return;
    this.#operations = [];
    const wait = this.#failure === undefined ? BUSY_TIMEOUT_MS : 0;
    const durable = idle || this.#owed.size > 0 || operations.some((operation) => operation.durable);
    try {
      this.#database.statement(`PRAGMA busy_timeout = ${wait}`).get();
      this.#database.transaction(durable, () => {
        // Without anything to write, a page that stays the same shows whether the file can be written again.
        if (idle) this.#database.statement('PRAGMA application_id = 0').run();
        for (const write of this.#owed.values()) write();
        for (const { write } of operations) write();
      });
      this.#failure = undefined;
      this.#owed.clear();
      for (const { written } of operations) written.resolve();
    } catch (error) {
      this.#failure = (error as Error).message;
      for (const operation of operations) this.#reject(operation, error);
      this.#retryLater();
    }
  }

  #reject({ write, written, owedFor }: Operation, error: unknown): void {
    if (owedFor !== undefined) {
      // To the end, so that it follows what it may have to undo.
      this.#owed.delete(owedFor);
      this.#owed.set(owedFor, write);
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
