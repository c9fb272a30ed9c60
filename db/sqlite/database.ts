import { statSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { DatabaseUnavailable } from '../task-store.ts';

export interface DatabaseOptions {
  /** Maximum wait for another connection's lock. Waiting blocks the calling thread. */
  busyTimeoutMs: number;
  /** Number of pages in the log (`-wal`) at which a commit runs a checkpoint; 0 for never. Default: 1000. */
  checkpointPages?: number;
  /** Whether to sync each commit to disk, so that it survives a power loss. Default: false. */
  isSynced?: boolean;
  /** Called when another file has taken the place of the open one. */
  onReplaced?: () => void;
}

interface Connection {
  handle: DatabaseSync;
  /** Device and inode of the database file. */
  file: string;
  /** Device and inode of the database's log (`-wal`). */
  log: string | undefined;
}

export const IN_MEMORY = ':memory:';

const SQLITE_BUSY = 5;
/** Enough for the upper pages of the indexes of millions of rows, which each row changes at random places. */
const CACHE_KIB = 16 * 1024;

/**
 * Connection to an existing SQLite file. Each use checks that the path still refers to the open file. A replacement is
 * opened only once the old log (`-wal`) is gone, because SQLite would apply the old log to the new file.
 */
export class Database {
  readonly #path: string;
  readonly #options: DatabaseOptions;
  readonly #statements = new Map<string, StatementSync>();
  #connection: Connection | undefined;
  /** The file that was opened last, which may no longer be open. */
  #lastFile: string | undefined;
  /** Connection of the current transaction, which keeps it even if the database file is replaced. */
  #transaction: DatabaseSync | undefined;
  #isLocked = false;
  #isClosed = false;

  constructor(path: string, options: DatabaseOptions) {
    this.#path = path;
    this.#options = options;
    try {
      // Opens the file now, so that a later replacement is detected.
      this.#open();
    } catch {
      // Ignores the error, because the first use of the database throws the same error.
    }
  }

  /**
   * Returns a prepared statement. Statements are cached without limit, so `sql` should be a constant. Its parameters are
   * `?`, `?1`… or `$1`….
   *
   * @throws {DatabaseUnavailable} if the file cannot be opened, or SQLite's error if `sql` is invalid
   */
  statement(sql: string, returnsArrays = false): StatementSync {
    const handle = this.#transaction ?? this.#open();
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      // SQLite takes `$1` for a name.
      statement = handle.prepare(sql.replaceAll(/\$(?=\d)/g, '?'));
      statement.setReturnArrays(returnsArrays);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  get<Row>(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.statement(sql).get(...values) as Row | undefined;
  }

  /** Returns the values of the first row, in less time than `get` because they have no names. */
  values<Row extends unknown[]>(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.statement(sql, true).get(...values) as unknown as Row | undefined;
  }

  all<Row>(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.statement(sql).all(...values) as Row[];
  }

  /** Like `all`, for statements that both databases share. */
  readonly read = <Row>(sql: string, values: readonly unknown[] = []): Row[] =>
    this.all(sql, ...(values as SQLInputValue[]));

  /** Runs a statement. Returns the number of changed rows. */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.statement(sql).run(...values).changes);
  }

  /** Runs a statement that returns no rows, in less time than `run` because it counts no changes. */
  runUncounted(sql: string, ...values: SQLInputValue[]): void {
    this.statement(sql).get(...values);
  }

  /** Runs statements without parameters, separated by semicolons. */
  exec(sql: string): void {
    this.#open().exec(sql);
  }

  /** Runs `work` in a transaction, which is rolled back if `work` throws. */
  transaction<T>(work: () => T): T {
    const handle = this.#open();
    this.#transaction = handle;
    try {
      this.runUncounted('BEGIN IMMEDIATE');
      const result = work();
      this.runUncounted('COMMIT');
      if (this.#isLocked) this.#setLocked(handle, false);
      return result;
    } catch (error) {
      // After some errors, SQLite has already rolled back the transaction.
      if (handle.isTransaction) handle.exec('ROLLBACK');
      if ((error as { errcode?: number }).errcode === SQLITE_BUSY) this.#setLocked(handle, true);
      throw error;
    } finally {
      this.#transaction = undefined;
    }
  }

  /** Reads from the file. @throws {Error} with the reason if the read fails */
  probe(): undefined {
    this.get('SELECT 1 FROM sqlite_schema LIMIT 1');
  }

  /** Writes an unchanged page of the file, in the present transaction, to test whether the file can be written. */
  rewritePage(): void {
    this.run('PRAGMA main.application_id = 0');
  }

  /** Closes the connection. Any later call except `close` throws. */
  close(): void {
    this.#isClosed = true;
    this.#disconnect();
  }

  /** While another program holds a lock, transactions do not wait for it, because each wait blocks the thread. */
  #setLocked(handle: DatabaseSync, isLocked: boolean): void {
    this.#isLocked = isLocked;
    handle.exec(`PRAGMA busy_timeout = ${isLocked ? 0 : this.#options.busyTimeoutMs}`);
  }

  #open(): DatabaseSync {
    if (this.#isClosed) throw new DatabaseUnavailable(`${this.#path} is closed`);
    const file = this.#file();
    if (this.#connection?.file === file) return this.#connection.handle;
    const log = this.#connection?.log;
    if (log !== undefined && log === this.#log()) {
      throw new DatabaseUnavailable(`${this.#path} was replaced, but ${this.#path}-wal still belongs to the old file`);
    }
    this.#disconnect();
    const handle = this.#connect();
    this.#connection = { handle, file, log: this.#log() };
    const lastFile = this.#lastFile;
    this.#lastFile = file;
    if (lastFile === undefined || lastFile === file) return handle;
    try {
      this.#options.onReplaced?.();
    } catch (error) {
      // The next use opens the replacement again, and calls `onReplaced` again.
      this.#disconnect();
      this.#lastFile = lastFile;
      throw error;
    }
    return handle;
  }

  #file(): string {
    if (this.#path === IN_MEMORY) return IN_MEMORY;
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
    if (this.#path === IN_MEMORY) return new DatabaseSync(IN_MEMORY);
    const { busyTimeoutMs, checkpointPages, isSynced } = this.#options;
    let handle: DatabaseSync | undefined;
    try {
      checkIsDatabase(this.#path);
      // Mode `rw` does not create a missing file. A new, empty database would hide the loss of the old database.
      handle = new DatabaseSync(fileUrl(this.#path, 'mode=rw'), { timeout: this.#isLocked ? 0 : busyTimeoutMs });
      // In WAL mode with `NORMAL`, a crash of the process loses no commits. A power loss can lose the latest commits.
      handle.exec(`PRAGMA synchronous = ${isSynced ? 'FULL' : 'NORMAL'}; PRAGMA journal_size_limit = 67108864;
        PRAGMA schema_version; PRAGMA cache_size = -${CACHE_KIB}`);
      if (checkpointPages !== undefined) handle.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
      return handle;
    } catch (error) {
      handle?.close();
      throw new DatabaseUnavailable(`${this.#path}: ${(error as Error).message}`, { cause: error });
    }
  }

  #disconnect(): void {
    this.#statements.clear();
    this.#connection?.handle.close();
    this.#connection = undefined;
  }
}

/** Returns SQLite's primary result code: the low byte of an extended one. Undefined for another error. */
export function resultCode(error: unknown): number | undefined {
  const { errcode } = error as { errcode?: number };
  return errcode && errcode & 0xff;
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
