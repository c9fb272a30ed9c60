import { statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';

/** The file cannot be opened, is gone, or is no database. */
export class DatabaseUnavailable extends Error {
  override name = 'DatabaseUnavailable';
}

export interface DatabaseOptions {
  /** How long a statement waits for another connection's lock. It waits on the calling thread. */
  busyTimeoutMs: number;
  /** Pages that the log may hold until a commit has to move them into the file, which takes its time; SQLite's own 1000 where absent. */
  checkpointPages?: number;
}

interface OpenFile {
  connection: DatabaseSync;
  /** Which file it is, and which one its log (`-wal`) is: what was written last is only there. */
  file: string;
  log: string | undefined;
  statements: Map<string, StatementSync>;
  /** Whether a commit waits for the disk. */
  durable: boolean;
}

/**
 * One connection to one SQLite file that has to exist. Before each use it looks whether the file is still there, so
 * that nothing is written to one that no path leads to any more; service goes on by itself once the file is back.
 *
 * Another file that took its place is opened if the log of the old one is gone, too. SQLite would take that log for
 * the new file's: put rows of the one into the other, or do away with what only the log holds.
 */
export class Database {
  readonly #path: string;
  readonly #options: DatabaseOptions;
  #open: OpenFile | undefined;
  /** Set while a transaction goes on: it ends on the connection on which it began. */
  #transaction: OpenFile | undefined;
  #closed = false;

  constructor(path: string, options: DatabaseOptions) {
    this.#path = path;
    this.#options = options;
    try {
      // At once, to know the file again.
      this.#obtain();
    } catch {
      // Whoever needs it will be told.
    }
  }

  /**
   * The prepared statement for `sql`, one a text: pass constants, never text made of values.
   *
   * @throws {DatabaseUnavailable} when there is no connection to be had
   * @throws {Error} of SQLite when the statement does not fit the schema
   */
  statement(sql: string): StatementSync {
    const { connection, statements } = this.#transaction ?? this.#obtain();
    let statement = statements.get(sql);
    if (statement === undefined) {
      statement = connection.prepare(sql);
      statements.set(sql, statement);
    }
    return statement;
  }

  /**
   * Runs `work` in a transaction of its own: all of it is written or nothing.
   *
   * @param durable whether what is written outlives a loss of power once this returns, which costs a wait for the disk
   * @throws {DatabaseUnavailable} when there is no connection to be had, and whatever SQLite or `work` throws
   */
  transaction(durable: boolean, work: () => void): void {
    const open = this.#obtain();
    this.#transaction = open;
    try {
      if (open.durable !== durable) {
        this.statement(`PRAGMA synchronous = ${durable ? 'FULL' : 'NORMAL'}`).run();
        open.durable = durable;
      }
      this.statement('BEGIN IMMEDIATE').run();
      work();
      this.statement('COMMIT').run();
    } catch (error) {
      // Some errors have taken the transaction back already.
      if (open.connection.isTransaction) open.connection.exec('ROLLBACK');
      throw error;
    } finally {
      this.#transaction = undefined;
    }
  }

  /** Whether the database answers. @throws {Error} that says why it does not */
  probe(): undefined {
    this.statement('SELECT 1 FROM sqlite_schema LIMIT 1').get();
  }

  /** Closes the connection for good; calling it again does nothing. */
  close(): void {
    this.#closed = true;
    this.#drop();
  }

  #obtain() {
    if (this.#closed) throw new DatabaseUnavailable(`${this.#path} is closed`);
    const file = this.#file();
    if (this.#open !== undefined && this.#open.file !== file) {
      if (this.#open.log !== undefined && this.#open.log === this.#log()) {
        throw new DatabaseUnavailable(`${this.#path} is another file, but ${this.#path}-wal is still the old one's`);
      }
      this.#drop();
    }
    this.#open ??= { connection: this.#connect(), file, log: this.#log(), statements: new Map(), durable: false };
    return this.#open;
  }

  #file(): string {
    try {
      return identity(statSync(this.#path));
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      const reason = code === 'ENOENT' ? `${this.#path} does not exist` : message;
      throw new DatabaseUnavailable(reason, { cause: error });
    }
  }

  #log(): string | undefined {
    const stats = statSync(`${this.#path}-wal`, { throwIfNoEntry: false });
    return stats && identity(stats);
  }

  #connect(): DatabaseSync {
    const url = pathToFileURL(this.#path);
    // Never create: an empty file in the place of a lost one would hide the loss.
    url.searchParams.set('mode', 'rw');
    let connection: DatabaseSync | undefined;
    try {
      look(url);
      const { busyTimeoutMs, checkpointPages } = this.#options;
      connection = new DatabaseSync(url, { timeout: busyTimeoutMs });
      // NORMAL: in WAL mode the end of the process loses nothing, the loss of power at most the last rows.
      connection.exec('PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 67108864; PRAGMA schema_version');
      if (checkpointPages !== undefined) connection.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
      return connection;
    } catch (error) {
      connection?.close();
      throw new DatabaseUnavailable(`${this.#path}: ${(error as Error).message}`, { cause: error });
    }
  }

  #drop(): void {
    this.#open?.connection.close();
    this.#open = undefined;
  }
}

/** Tells one file from another that has taken its path. */
function identity({ dev, ino }: { dev: number; ino: number }): string {
  return `${dev}:${ino}`;
}

/**
 * Looks at what lies at `url` with its log left alone, which SQLite else reads first, and removes on finding no database.
 * Not by the means of the file system: closing a file by these gives up every lock that SQLite holds on it.
 *
 * @throws {Error} when it is no database
 */
function look(url: URL): void {
  const immutable = new URL(url);
  immutable.searchParams.set('immutable', '1');
  const connection = new DatabaseSync(immutable);
  try {
    const { page_count: pages } = connection.prepare('PRAGMA page_count').get() as { page_count: number };
    if (pages === 0) throw new Error('file is empty');
  } finally {
    connection.close();
  }
}
