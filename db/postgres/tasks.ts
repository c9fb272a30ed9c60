import { searchRows } from '../search.ts';
import {
  type Position,
  type RowParts,
  rowColumns,
  type SearchFilter,
  type SearchPage,
  type TaskRows,
} from '../task-rows.ts';
import type { PostgresDatabase } from './database.ts';
import { dialect, runSearch } from './search.ts';

const find = (columns: string) => `SELECT ${columns} FROM tasks WHERE id = ANY($1::text[])`;

/** Exported, so that a spec can check the query plans. */
export const taskStatements = {
  whole: find(rowColumns.whole),
  detailed: find(rowColumns.detailed),
  summary: find(rowColumns.summary),
  position: find('created_at AS "createdAt", arrival'),
};

const [, ...AFTER_ID] = rowColumns.detailed.split(', ');
const REPLACED = [...AFTER_ID, 'delivery'].map((name) => `${name} = excluded.${name}`);

/**
 * Returns SQL that writes rows, which replace rows with the same ids. A replaced row keeps its position in the order of
 * arrival.
 *
 * @param select returns the columns of a row, then `arrival`, and then the delivery that completed the task, or null
 */
export const insertRows = (select: string) => `INSERT INTO tasks (${rowColumns.detailed}, arrival, delivery) ${select}
  ON CONFLICT (id) DO UPDATE SET ${REPLACED}`;

/** Writes the rows of tasks that were acked before. */
export const STORE_ROWS = `WITH given AS (
    SELECT * FROM json_populate_recordset(NULL::tasks, $1)
  ), done AS (
    DELETE FROM acks WHERE arrival = ANY(ARRAY(SELECT arrival FROM given))
  ) ${insertRows(`SELECT ${rowColumns.detailed}, arrival, delivery FROM given ORDER BY id`)}`;

/** Read access to the PostgreSQL table `tasks`. */
export class Tasks implements TaskRows {
  readonly #database: PostgresDatabase;

  constructor(database: PostgresDatabase) {
    this.#database = database;
  }

  async find<Part extends keyof RowParts = 'whole'>(id: string, part?: Part): Promise<RowParts[Part] | undefined> {
    return (await this.read([id], part ?? ('whole' as Part)))[0];
  }

  async read<Part extends keyof RowParts>(ids: readonly string[], part: Part): Promise<RowParts[Part][]> {
    const rows = await this.#database.query<RowParts[Part]>(taskStatements[part], [ids.filter(isText)]);
    const byId = new Map(rows.map((row) => [row.id, row]));
    return ids.flatMap((id) => byId.get(id) ?? []);
  }

  async position(id: string): Promise<Position | undefined> {
    const [row] = await this.#database.query<{ createdAt: number; arrival: number }>(taskStatements.position, [
      [id].filter(isText),
    ]);
    return row && [row.createdAt, row.arrival];
  }

  search(filter: SearchFilter, after: Position | undefined, limit: number): Promise<SearchPage> {
    return runSearch(this.#database.query, searchRows(dialect, filter, after, limit));
  }
}

/** PostgreSQL refuses a string that contains a NUL character. */
export function isText(text: string): boolean {
  return !text.includes('\0');
}
