import { searchRows } from '../search.ts';
import {
  type DetailedRow,
  type Position,
  type RowParts,
  rowColumns,
  type SearchFilter,
  type SearchPage,
  type TaskRows,
} from '../task-rows.ts';
import type { Database } from './database.ts';
import { dialect, runSearch } from './search.ts';

const VALUES = '?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, NULL, NULL';
const STORE = `INSERT OR IGNORE INTO tasks (rowid, ${rowColumns.detailed}) VALUES (?1, ${VALUES})`;
// If another task has the rowid, NULL makes SQLite assign a new one. REPLACE would delete the other task's row.
const REPLACE = `INSERT OR REPLACE INTO tasks (rowid, ${rowColumns.detailed})
  VALUES (CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE rowid = ?1 AND id <> ?2) THEN NULL ELSE ?1 END, ${VALUES})`;

// Most rows have neither, so the other statements need no parameters for them.
const SET_VIEWS = 'UPDATE tasks SET limit_key = ?, submitter = ? WHERE id = ?';

/** Rows of the SQLite table `tasks`. Methods throw SQLite's errors and the errors of {@link Database.statement}. */
export class Tasks implements TaskRows {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  find<Part extends keyof RowParts = 'whole'>(id: string, part?: Part): RowParts[Part] | undefined {
    return this.#database.get(`SELECT ${rowColumns[part ?? 'whole']} FROM tasks WHERE id = ?`, id);
  }

  read<Part extends keyof RowParts>(ids: readonly string[], part: Part): RowParts[Part][] {
    return ids.flatMap((id) => this.find(id, part) ?? []);
  }

  position(id: string): Position | undefined {
    return this.#database.values<[number, number]>('SELECT created_at, rowid FROM tasks WHERE id = ?', id);
  }

  search(filter: SearchFilter, after: Position | undefined, limit: number): SearchPage {
    return runSearch(this.#database, searchRows(dialect, filter, after, limit));
  }

  lastArrival(): number {
    return this.#database.get<{ last: number }>('SELECT ifnull(max(rowid), 0) AS last FROM tasks')?.last ?? 0;
  }

  /**
   * Writes the row of a completed task, which replaces an earlier row with the same id.
   *
   * @param arrival position in the order of acceptance, which becomes the rowid unless another task has it
   */
  store(arrival: number, row: DetailedRow): void {
    const { id, payload, status, result, created_at, processed_at } = row;
    const { attempts = null, waited_ms = null, ran_ms = null, started_at = null, ended_at = null } = row;
    const { node = null, history = null, limit_key = null, submitter = null } = row;
    const whole = [id, payload, status, result, created_at, processed_at] as const;
    const values = [arrival, ...whole, attempts, waited_ms, ran_ms, started_at, ended_at, node, history] as const;
    // Only a row with this id or rowid prevents the insertion, and looking for one first would take longer.
    if (this.#database.run(STORE, ...values) === 0) this.#database.run(REPLACE, ...values);
    if (limit_key !== null || submitter !== null) this.#database.run(SET_VIEWS, limit_key, submitter, id);
  }
}
