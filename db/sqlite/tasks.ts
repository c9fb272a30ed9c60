import type { Database } from './database.ts';

/** A row of table `tasks`. `payload` and `result` are JSON text. Times are Unix seconds. */
export interface TaskRecord {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

/** Id and size of a row of table `tasks`. */
export interface TaskLocation {
  id: string;
  /** Total size of the row's payload and result in bytes. */
  bytes: number;
}

export type CompletedTask = TaskRecord & { status: 'completed'; result: string; processed_at: number };

/**
 * A completed task with its position in the order of arrival. If the position is null or taken, the task is stored as
 * the newest.
 */
export type OrderedTask = CompletedTask & { arrival?: number | null };

/** Maximum number of rows in a response to `GET /tasks`, set by the specification. */
export const LISTING_SIZE = 100;

const COLUMNS = 'id, payload, status, result, created_at, processed_at';
// Rows created in the same second are ordered by rowid, which is the order of arrival.
const NEWEST = `ORDER BY created_at DESC, rowid DESC LIMIT ${LISTING_SIZE}`;

// If another task has the rowid, NULL makes SQLite assign a new rowid. REPLACE would delete the other task's row.
const STORE = `INSERT OR REPLACE INTO tasks (rowid, ${COLUMNS}) VALUES (
  CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE rowid = ?1 AND id <> ?2) THEN NULL ELSE ?1 END, ?2, ?3, ?4, ?5, ?6, ?7)`;

/** Tasks in the SQLite table `tasks`. Methods throw SQLite's errors and the errors of {@link Database.statement}. */
export class Tasks {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns the ids and sizes of the rows that {@link list} returns, without loading their payloads and results. */
  locate(status?: string): TaskLocation[] {
    const columns = 'id, octet_length(payload) + ifnull(octet_length(result), 0) AS bytes';
    return this.#newest(columns, status) as unknown as TaskLocation[];
  }

  /** Returns a task's row, or undefined if the task has no row. */
  find(id: string): TaskRecord | undefined {
    return this.#database.statement(`SELECT ${COLUMNS} FROM tasks WHERE id = ?`).get(id) as TaskRecord | undefined;
  }

  /** Returns up to {@link LISTING_SIZE} rows, newest first, optionally only rows with `status`. */
  list(status?: string): TaskRecord[] {
    return this.#newest(COLUMNS, status) as unknown as TaskRecord[];
  }

  #newest(columns: string, status: string | undefined): object[] {
    const sql = `SELECT ${columns} FROM tasks`;
    return status === undefined
      ? this.#database.statement(`${sql} ${NEWEST}`).all()
      : this.#database.statement(`${sql} WHERE status = ? ${NEWEST}`).all(status);
  }

  /** Writes the row of a completed task, replacing an earlier row with the same id. */
  store({ id, payload, status, result, created_at, processed_at, arrival = null }: OrderedTask): void {
    this.#database.statement(STORE).run(arrival, id, payload, status, result, created_at, processed_at);
  }

  /**
   * Writes rows like {@link store}, but in one transaction. If SQLite rejects a row, all rows are written one by one
   * instead.
   *
   * @returns for each row, in order, the failure, or undefined if the row was written
   */
  storeAll(tasks: readonly OrderedTask[]): ReadonlyArray<WriteFailure | undefined> {
    const all = () => {
      for (const task of tasks) this.store(task);
    };
    const failure = tryWrite(tasks.length > 1 ? () => this.#database.transaction(false, all) : all);
    if (failure?.ofRow && tasks.length > 1) return tasks.map((task) => tryWrite(() => this.store(task)));
    return tasks.map(() => failure);
  }
}

export interface WriteFailure {
  error: unknown;
  /** Whether only this row was rejected. If false, the database currently cannot store any row. */
  ofRow: boolean;
}

function tryWrite(write: () => void): WriteFailure | undefined {
  try {
    write();
    return undefined;
  } catch (error) {
    const primaryCode = ((error as { errcode?: number }).errcode ?? 0) & 0xff;
    return { error, ofRow: VALUE_ERRORS.has(primaryCode) };
  }
}

/** SQLite's result codes for a row with invalid values. Any other error would affect every row. */
const VALUE_ERRORS = new Set([18 /* TOOBIG */, 19 /* CONSTRAINT */, 20 /* MISMATCH */]);
