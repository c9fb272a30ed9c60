import type { Database } from './database.ts';

/** A row of table `tasks` that may be deleted. */
export interface AgedRow {
  rowid: number;
  /** Submission time of the task in Unix seconds. */
  created_at: number;
  /** Completion time of the task in Unix seconds, or `created_at` if it is unknown. */
  ended_at: number;
  /** Total size of the row's payload and result. */
  bytes: number;
}

const COLUMNS = `rowid, created_at, ifnull(processed_at, created_at) AS ended_at,
  octet_length(payload) + ifnull(octet_length(result), 0) AS bytes`;

/** Finds and deletes old rows of table `tasks`. Methods throw the errors of {@link Database.statement} and of SQLite. */
export class TaskRetention {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns the number of rows of the table, by a scan of an index with about 20 bytes per row. */
  count(): number {
    const { count } = this.#database.statement('SELECT count(*) AS count FROM tasks').get() as { count: number };
    return count;
  }

  /** Returns the `limit` rows that arrived first, in the order of arrival. */
  oldest(limit: number): AgedRow[] {
    const rows = this.#database.statement(`SELECT ${COLUMNS} FROM tasks ORDER BY rowid LIMIT ?`);
    return rows.all(limit) as unknown as AgedRow[];
  }

  /** Returns up to `limit` rows of tasks submitted before `time` (Unix seconds), oldest first, starting after the row `last`. */
  submittedBefore(time: number, last: Pick<AgedRow, 'created_at' | 'rowid'>, limit: number): AgedRow[] {
    const rows = this.#database.statement(
      `SELECT ${COLUMNS} FROM tasks WHERE created_at < ? AND (created_at, rowid) > (?, ?)
       ORDER BY created_at, rowid LIMIT ?`,
    );
    return rows.all(time, last.created_at, last.rowid, limit) as unknown as AgedRow[];
  }

  /** Deletes rows in one transaction, except rows that were since replaced because their task completed again later. */
  delete(rows: readonly AgedRow[]): void {
    const statement = this.#database.statement(
      'DELETE FROM tasks WHERE rowid = ? AND ifnull(processed_at, created_at) <= ?',
    );
    this.#database.transaction(false, () => {
      for (const { rowid, ended_at } of rows) statement.run(rowid, ended_at);
    });
  }

  /** Runs a passive checkpoint, which never waits for other connections. */
  checkpoint(): void {
    this.#database.statement('PRAGMA wal_checkpoint(PASSIVE)').get();
  }
}
