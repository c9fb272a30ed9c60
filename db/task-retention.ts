import type { Database } from './database.ts';

/** A row that may be deleted, and what it holds. */
export interface AgedRow {
  rowid: number;
  /** Unix seconds. */
  created_at: number;
  /** When the task was done; when it was submitted, where that is not known. */
  ended_at: number;
  /** Of payload and result. */
  bytes: number;
}

const COLUMNS = `rowid, created_at, ifnull(processed_at, created_at) AS ended_at,
  octet_length(payload) + ifnull(octet_length(result), 0) AS bytes`;

/** Finds and deletes the rows of tasks that are not to be kept any longer. Every method throws what `Database` throws. */
export class TaskRetention {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** How many rows there are: counts the entries of an index, 20 bytes each, page by page. */
  count(): number {
    const { count } = this.#database.statement('SELECT count(*) AS count FROM tasks').get() as { count: number };
    return count;
  }

  /** The rows that came first, at most `limit`. */
  oldest(limit: number): AgedRow[] {
    const rows = this.#database.statement(`SELECT ${COLUMNS} FROM tasks ORDER BY rowid LIMIT ?`).all(limit);
    return rows as unknown as AgedRow[];
  }

  /** Rows of tasks that were submitted before `time` (Unix seconds), in that order, at most `limit`, from behind `place` on. */
  submittedBefore(time: number, place: Pick<AgedRow, 'created_at' | 'rowid'>, limit: number): AgedRow[] {
    const rows = this.#database.statement(
      `SELECT ${COLUMNS} FROM tasks WHERE created_at < ? AND (created_at, rowid) > (?, ?)
       ORDER BY created_at, rowid LIMIT ?`,
    );
    return rows.all(time, place.created_at, place.rowid, limit) as unknown as AgedRow[];
  }

  /** Deletes rows in one transaction, unless they have been written again since, by a task that was done after `rows` were read. */
  delete(rows: readonly AgedRow[]): void {
    const statement = this.#database.statement(
      'DELETE FROM tasks WHERE rowid = ? AND ifnull(processed_at, created_at) <= ?',
    );
    this.#database.transaction(false, () => {
      for (const { rowid, ended_at } of rows) statement.run(rowid, ended_at);
    });
  }

  /** Moves what the log holds into the file, as far as nobody has to wait for it. */
  checkpoint(): void {
    this.#database.statement('PRAGMA wal_checkpoint(PASSIVE)').get();
  }
}
