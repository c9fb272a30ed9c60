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

export type CompletedTask = TaskRecord & { status: 'completed'; result: string; processed_at: number };

/** The specification's limit of `GET /tasks`. */
export const LISTING_SIZE = 100;

const COLUMNS = 'id, payload, status, result, created_at, processed_at';
// Rows of one second stay in the order of their arrival in the table.
const NEWEST = `ORDER BY created_at DESC, rowid DESC LIMIT ${LISTING_SIZE}`;

/** The stored tasks: table `tasks` of the specification. */
export class Tasks {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
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
  store(task: CompletedTask): void {
    this.#database
      .statement(`INSERT OR REPLACE INTO tasks (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`)
      .run(task.id, task.payload, task.status, task.result, task.created_at, task.processed_at);
  }
}
