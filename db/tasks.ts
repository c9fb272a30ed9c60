import type { Database } from './database.ts';

/** A row of table `tasks`; `payload` and `result` are JSON texts, times are Unix seconds. */
export interface TaskRecord {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

/** Which row it is, and how many bytes its payload and result have. */
export interface TaskLocation {
  id: string;
  bytes: number;
}

export type CompletedTask = TaskRecord & { status: 'completed'; result: string; processed_at: number };

/** A task's row with its place in the order of arrival; none, or a place that is taken, is as good as the latest. */
export type ArrivedTask = CompletedTask & { arrival?: number | null };

/** The specification's limit of `GET /tasks`. */
export const LISTING_SIZE = 100;

const COLUMNS = 'id, payload, status, result, created_at, processed_at';
// The rowid is the order of arrival, which `created_at` tells only to the second.
const NEWEST = `ORDER BY created_at DESC, rowid DESC LIMIT ${LISTING_SIZE}`;

// REPLACE would remove the row of another task that has the rowid, so a rowid that is taken is not asked for.
const STORE = `INSERT OR REPLACE INTO tasks (rowid, ${COLUMNS}) VALUES (
  CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE rowid = ?1 AND id <> ?2) THEN NULL ELSE ?1 END, ?2, ?3, ?4, ?5, ?6, ?7)`;

/** The stored tasks: table `tasks` of the specification. */
export class Tasks {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Which rows {@link list} gives, newest first, and how many bytes their texts have: cheap, however large they are.
   *
   * @throws as {@link list}
   */
  locate(status?: string): TaskLocation[] {
    const sql = `SELECT id, octet_length(payload) + ifnull(octet_length(result), 0) AS bytes FROM tasks`;
    const rows =
      status === undefined
        ? this.#database.statement(`${sql} ${NEWEST}`).all()
        : this.#database.statement(`${sql} WHERE status = ? ${NEWEST}`).all(status);
    return rows as unknown as TaskLocation[];
  }

  /** The row of the task with that id, if there is one. @throws as {@link list} */
  find(id: string): TaskRecord | undefined {
    return this.#database.statement(`SELECT ${COLUMNS} FROM tasks WHERE id = ?`).get(id) as TaskRecord | undefined;
  }

  /**
   * The newest rows, at most {@link LISTING_SIZE}, only those of `status` where one is given.
   *
   * @throws {DatabaseUnavailable} when the database cannot be obtained, any other error when the query fails
   */
  list(status?: string): TaskRecord[] {
    const rows =
      status === undefined
        ? this.#database.statement(`SELECT ${COLUMNS} FROM tasks ${NEWEST}`).all()
        : this.#database.statement(`SELECT ${COLUMNS} FROM tasks WHERE status = ? ${NEWEST}`).all(status);
    return rows as unknown as TaskRecord[];
  }

  /**
   * Writes the row of a task that was worked off, in the place of an earlier row with its id.
   *
   * @throws {DatabaseUnavailable} when the database cannot be obtained, any other error when nothing was written
   */
  store({ id, payload, status, result, created_at, processed_at, arrival = null }: ArrivedTask): void {
    this.#database.statement(STORE).run(arrival, id, payload, status, result, created_at, processed_at);
  }

  /**
   * Writes rows as {@link store} does, all in one transaction where that works.
   *
   * @returns for each of them, in order, why it was not written: because of itself, or because nothing can be
   */
  storeAll(tasks: readonly ArrivedTask[]): ReadonlyArray<WriteFailure | undefined> {
    const all = () => {
      for (const task of tasks) this.store(task);
    };
    const failure = attempt(tasks.length > 1 ? () => this.#database.transaction(false, all) : all);
    // One row that cannot be written keeps no other one from being written.
    if (failure !== undefined && tasks.length > 1 && failure.ofRow) {
      return tasks.map((task) => attempt(() => this.store(task)));
    }
    return tasks.map(() => failure);
  }
}

/** Why a row was not written: because of itself, or because nothing can be. */
export interface WriteFailure {
  error: unknown;
  ofRow: boolean;
}

function attempt(write: () => void): WriteFailure | undefined {
  try {
    write();
    return undefined;
  } catch (error) {
    return { error, ofRow: concernsRow(error) };
  }
}

/** SQLite's codes for values that it does not take; any other error would be met by every row. */
const VALUE_ERRORS = new Set([18 /* TOOBIG */, 19 /* CONSTRAINT */, 20 /* MISMATCH */]);

function concernsRow(error: unknown): boolean {
  return VALUE_ERRORS.has(((error as { errcode?: number }).errcode ?? 0) & 0xff);
}
