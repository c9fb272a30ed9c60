import { statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';

/** Thrown if a database file cannot be opened, or if a database server does not answer. */
export class DatabaseUnavailable extends Error {
  override name = 'DatabaseUnavailable';
}

export interface DatabaseOptions {
  /** Maximum wait for another connection's lock. Waiting blocks the calling thread. */
  busyTimeoutMs: number;
  /** Number of pages in the log (`-wal`) at which a commit runs a checkpoint; 0 for never. Default: 1000. */
  checkpointPages?: number;
}

interface OpenFile {
  connection: DatabaseSync;
  /** Device and inode of the database file. */
  file: string;
  /** Device and inode of the database's log (`-wal`). */
  log: string | undefined;
  statements: Map<string, StatementSync>;
  /** Whether each commit is synced to disk. */
  durable: boolean;
}

/**
 * Connection to an existing SQLite file. Each use checks that the path still refers to the open file. A replacement is
 * opened only once the old log (`-wal`) is gone, because SQLite would apply the old log to the new file.
 */
export class Database {
  readonly #path: string;
  readonly #options: DatabaseOptions;
  #open: OpenFile | undefined;
  /** Connection of the current transaction, which keeps it even if the database file is replaced. */
  #transaction: OpenFile | undefined;
  #closed = false;

  constructor(path: string, options: DatabaseOptions) {
    this.#path = path;
    this.#options = options;
    try {
      // Opens the file now, so that a later replacement is detected.
      this.#openFile();
    } catch {
      // Ignores the error, because the first use of the database throws the same error.
    }
  }

  /**
   * Returns a prepared statement. Statements are cached without limit, so `sql` should be a constant.
   *
   * @throws {DatabaseUnavailable} if the file cannot be opened, or SQLite's error if `sql` is invalid
   */
  statement(sql: string): StatementSync {
    const { connection, statements } = this.#transaction ?? this.#openFile();
    let statement = statements.get(sql);
    if (statement === undefined) {
      statement = connection.prepare(sql);
      statements.set(sql, statement);
    }
    return statement;
  }

  /**
   * Runs `work` in a transaction, which is rolled back if `work` throws.
   *
   * @param durable whether to sync the commit to disk, so that it survives a power loss
   */
  transaction<T>(durable: boolean, work: () => T): T {
    const open = this.#openFile();
    this.#transaction = open;
    try {
      if (open.durable !== durable) {
        this.statement(`PRAGMA synchronous = ${durable ? 'FULL' : 'NORMAL'}`).run();
        open.durable = durable;
      }
      this.statement('BEGIN IMMEDIATE').run();
      const result = work();
      this.statement('COMMIT').run();
      return result;
    } catch (error) {
      // After some errors, SQLite has already rolled back the transaction.
      if (open.connection.isTransaction) open.connection.exec('ROLLBACK');
      throw error;
    } finally {
      this.#transaction = undefined;
    }
  }

  /** Reads from the database. @throws {Error} with the reason if the read fails */
  probe(): undefined {
    this.statement('SELECT 1 FROM sqlite_schema LIMIT 1').get();
  }

  /** Closes the connection. Any later call except `close` throws. */
  close(): void {
    this.#closed = true;
    this.#disconnect();
  }

  #openFile() {
    if (this.#closed) throw new DatabaseUnavailable(`${this.#path} is closed`);
    const file = this.#file();
    if (this.#open !== undefined && this.#open.file !== file) {
      if (this.#open.log !== undefined && this.#open.log === this.#log()) {
        throw new DatabaseUnavailable(
          `${this.#path} was replaced, but ${this.#path}-wal still belongs to the old file`,
        );
      }
      this.#disconnect();
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
    let connection: DatabaseSync | undefined;
    try {
      checkIsDatabase(this.#path);
      const { busyTimeoutMs, checkpointPages } = this.#options;
      // Mode `rw` does not create a missing file. A new, empty database would hide the loss of the old database.
      connection = new DatabaseSync(fileUrl(this.#path, 'mode=rw'), { timeout: busyTimeoutMs });
      // In WAL mode with `NORMAL`, a crash of the process loses no commits. A power loss can lose the latest commits.
      connection.exec('PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 67108864; PRAGMA schema_version');
      if (checkpointPages !== undefined) connection.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
      return connection;
    } catch (error) {
      connection?.close();
      throw new DatabaseUnavailable(`${this.#path}: ${(error as Error).message}`, { cause: error });
    }
  }

  #disconnect(): void {
    this.#open?.connection.close();
    this.#open = undefined;
  }
}

function identity({ dev, ino }: { dev: number; ino: number }): string {
  return `${dev}:${ino}`;
}

// Opens the file as immutable, because SQLite would otherwise delete the log (`-wal`) of a file that is not a database.
// Does not read the file by `node:fs`, because closing a file releases SQLite's locks on the file.
function checkIsDatabase(path: string): void {
  using connection = new DatabaseSync(fileUrl(path, 'immutable=1'));
  const { page_count: pages } = connection.prepare('PRAGMA page_count').get() as { page_count: number };
  if (pages === 0) throw new Error('file is empty');
}

export function fileUrl(path: string, parameter: 'mode=rw' | 'immutable=1'): URL {
  return new URL(`?${parameter}`, pathToFileURL(path));
}
