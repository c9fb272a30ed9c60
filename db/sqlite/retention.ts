import type { Database } from './database.ts';

/** A row that may be deleted. */
export interface AgedRow {
  rowid: number;
  /** Unix seconds. */
  created_at: number;
  /** Completion time of the task in Unix seconds, or `created_at` if it is unknown. */
  ended_at: number;
  /** Size of payload and result. */
  bytes: number;
}

const COLUMNS = `rowid, created_at, ifnull(processed_at, created_at) AS ended_at,
  octet_length(payload) + ifnull(octet_length(result), 0) AS bytes`;

/** Finds and deletes old rows of table `tasks`. Every method throws as {@link Database.statement}, or SQLite's error. */
export class TaskRetention {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns the number of rows. Scans an index of about 20 bytes a row. */
  count(): number {
    const { count } = this.#database.statement('SELECT count(*) AS count FROM tasks').get() as { count: number };
    return count;
  }

  /** Returns the first `limit` rows in the order of arrival. */
  oldest(limit: number): AgedRow[] {
    const rows = this.#database.statement(`SELECT ${COLUMNS} FROM tasks ORDER BY rowid LIMIT ?`);
    return rows.all(limit) as unknown as AgedRow[];
  }

  /** Returns up to `limit` rows after the row `last`, oldest first, of tasks submitted before `time` (Unix seconds). */
  submittedBefore(time: number, last: Pick<AgedRow, 'created_at' | 'rowid'>, limit: number): AgedRow[] {
    const rows = this.#database.statement(
      `SELECT ${COLUMNS} FROM tasks WHERE created_at < ? AND (created_at, rowid) > (?, ?)
       ORDER BY created_at, rowid LIMIT ?`,
    );
    return rows.all(time, last.created_at, last.rowid, limit) as unknown as AgedRow[];
  }

  /** Deletes rows in one transaction, except rows that have since been replaced by a task completed later. */
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
