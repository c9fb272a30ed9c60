import { searchRows } from '../search.ts';
import {
  actionText,
  columnOf,
  isRare,
  LISTING_SIZE,
  type Position,
  type RowParts,
  readsActions,
  rowColumns,
  type SearchFilter,
  type SearchPage,
  type TaskFilter,
  type TaskPosition,
  type TaskRows,
} from '../task-rows.ts';
import type { BoundStatement, PostgresDatabase } from './database.ts';
import { ACTION_KEY, dialect, runSearch } from './search.ts';

const find = (columns: string) => `SELECT ${columns} FROM tasks WHERE id = $1`;

/** Exported, so that a spec can check the query plans. */
export const taskStatements = {
  whole: find(rowColumns.whole),
  detailed: find(rowColumns.detailed),
  summary: find(rowColumns.summary),
  size: find(rowColumns.size),
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

/** Position newer than that of any row, so that a listing starts with the newest row. */
const NEWEST = { createdAt: '9223372036854775807', arrival: '9223372036854775807' };

/**
 * Returns the query for a page of a listing. The query compares the indexed columns as one row, for example
 * `(status, created_at, arrival) < (…)`, because with `status = …` the planner may scan the index on creation time.
 */
export function listingQuery(columns: string, filter: TaskFilter): BoundStatement {
  const { status, action, view, before = NEWEST } = filter;
  const [column, value] = view === undefined ? [] : columnOf(view);
  const indexed = (!isRare(status) && column) || (readsActions(filter) ? ACTION_KEY : 'status');
  const key = ['created_at', 'arrival'];
  const bounds = ['$1::bigint', '$2::bigint'];
  const values: unknown[] = [before.createdAt, before.arrival];
  const conditions: string[] = [];
  for (const [expression, given] of [
    [column, value],
    ['status', status],
    [ACTION_KEY, action && actionText(action)],
  ] as const) {
    if (given === undefined) continue;
    const bound = `$${values.push(given)}::text`;
    if (expression === indexed) {
      conditions.push(`${expression} >= ${bound}`);
      key.unshift(expression);
      bounds.unshift(bound);
      // Unlike `=`, `texteq` keeps the planner from using another index, and from sorting the rows.
    } else conditions.push(`texteq(${expression}, ${bound})`);
  }
  conditions.push(`(${key}) < (${bounds})`);
  const order = key.map((column) => `${column} DESC`);
  const text = `SELECT ${columns} FROM tasks WHERE ${conditions.join(' AND ')} ORDER BY ${order} LIMIT ${LISTING_SIZE}`;
  return [text, values];
}

/** Read access to the PostgreSQL table `tasks`. */
export class Tasks implements TaskRows {
  readonly #database: PostgresDatabase;

  constructor(database: PostgresDatabase) {
    this.#database = database;
  }

  async list<Part extends keyof RowParts = 'whole'>(filter: TaskFilter, part?: Part): Promise<RowParts[Part][]> {
    if (filter.status !== undefined && !isText(filter.status)) return [];
    return this.#database.query<RowParts[Part]>(...listingQuery(rowColumns[part ?? 'whole'], filter));
  }

  find<Part extends keyof RowParts = 'whole'>(id: string, part?: Part): Promise<RowParts[Part] | undefined> {
    return this.#one(taskStatements[part ?? 'whole'], id);
  }

  position(id: string): Promise<TaskPosition | undefined> {
    return this.#one(taskStatements.position, id);
  }

  search(filter: SearchFilter, after: Position | undefined, limit: number): Promise<SearchPage> {
    return runSearch(this.#database.query, searchRows(dialect, filter, after, limit));
  }

  async #one<Row>(text: string, id: string): Promise<Row | undefined> {
    return isText(id) ? (await this.#database.query<Row>(text, [id]))[0] : undefined;
  }
}

/** PostgreSQL refuses a string that contains a NUL character. */
export function isText(text: string): boolean {
  return !text.includes('\0');
}
