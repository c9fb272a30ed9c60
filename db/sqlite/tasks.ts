import type { TaskFilter, TaskPosition } from '../task-filter.ts';
import type { Database } from './database.ts';
import { LISTING_SIZE, listingQueries } from './task-listing.ts';

export { LISTING_SIZE };

/** A row of table `tasks`. `payload` and `result` are JSON text. Times are Unix seconds. */
export interface TaskRecord {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

export interface TaskLocation {
  id: string;
  /** Total size of the row's payload and result. */
  bytes: number;
}

/** A row with `payload` and `result` cut to {@link SUMMARY_LENGTH} characters, and their full sizes. */
export interface TaskSummary extends TaskRecord {
  payload_bytes: number;
  result_bytes: number | null;
  /** First {@link HEAD_LENGTH} characters of the payload, which contain the start of the task's action. */
  head: string;
}

/** Maximum number of characters of the payload and of the result in a summary. */
export const SUMMARY_LENGTH = 256;
/** Maximum length of `TaskSummary.head`. Must be at least `READ_LENGTH` in workers/parse-submission.ts. */
export const HEAD_LENGTH = 2048;

export type CompletedTask = TaskRecord & { status: 'completed'; result: string; processed_at: number };

/** A task is stored as the newest if `arrival`, its position in the order of arrival, is null or taken. */
export type OrderedTask = CompletedTask & { arrival?: number | null };

const COLUMNS = 'id, payload, status, result, created_at, processed_at';
const LOCATION = 'id, octet_length(payload) + ifnull(octet_length(result), 0) AS bytes';
const SUMMARY = `id, substr(payload, 1, ${SUMMARY_LENGTH}) AS payload, octet_length(payload) AS payload_bytes, status,
  substr(result, 1, ${SUMMARY_LENGTH}) AS result, octet_length(result) AS result_bytes, created_at, processed_at,
  substr(payload, 1, ${HEAD_LENGTH}) AS head`;

// If another task has the rowid, NULL makes SQLite assign a new one. REPLACE would delete the other task's row.
const STORE = `INSERT OR REPLACE INTO tasks (rowid, ${COLUMNS}) VALUES (
  CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE rowid = ?1 AND id <> ?2) THEN NULL ELSE ?1 END, ?2, ?3, ?4, ?5, ?6, ?7)`;

/** Tasks in the SQLite table `tasks`. Methods throw SQLite's errors and the errors of {@link Database.statement}. */
export class Tasks {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns the ids and sizes of the rows that {@link list} returns. */
  locate(filter: TaskFilter = {}): TaskLocation[] {
    return this.#newest(LOCATION, filter) as unknown as TaskLocation[];
  }

  find(id: string): TaskRecord | undefined {
    return this.#database.statement(`SELECT ${COLUMNS} FROM tasks WHERE id = ?`).get(id) as TaskRecord | undefined;
  }

  findSummary(id: string): TaskSummary | undefined {
    return this.#database.statement(`SELECT ${SUMMARY} FROM tasks WHERE id = ?`).get(id) as TaskSummary | undefined;
  }

  position(id: string): TaskPosition | undefined {
    const position = 'SELECT created_at AS createdAt, rowid AS arrival FROM tasks WHERE id = ?';
    return this.#database.statement(position).get(id) as TaskPosition | undefined;
  }

  /** Returns up to {@link LISTING_SIZE} matching rows, newest first. */
  list(filter: TaskFilter = {}): TaskRecord[] {
    return this.#newest(COLUMNS, filter) as unknown as TaskRecord[];
  }

  summarize(filter: TaskFilter = {}): TaskSummary[] {
    return this.#newest(SUMMARY, filter) as unknown as TaskSummary[];
  }

  #newest(columns: string, filter: TaskFilter): object[] {
    const rows: object[] = [];
    for (const { sql, values } of listingQueries(columns, filter)) {
      rows.push(...this.#database.statement(sql).all(...values, LISTING_SIZE - rows.length));
      if (rows.length === LISTING_SIZE) break;
    }
    return rows;
  }

  /** Writes a row, which replaces an earlier row with the same id. */
  store({ id, payload, status, result, created_at, processed_at, arrival = null }: OrderedTask): void {
    this.#database.statement(STORE).run(arrival, id, payload, status, result, created_at, processed_at);
  }

  /** Writes rows in one transaction. Returns the failure of each row, or undefined for a written row. */
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

/** SQLite's result codes for errors caused by a single row. Any other error would affect every row. */
const VALUE_ERRORS = new Set([18 /* TOOBIG */, 19 /* CONSTRAINT */, 20 /* MISMATCH */]);
