import { LISTING_SIZE } from '../sqlite/task-listing.ts';
import { actionText, readsActions, type TaskFilter } from '../task-filter.ts';

/** PostgreSQL uses the index `tasks_by_action` only if its expression equals `ACTION_KEY`. */
const ACTION_KEY = `split_part(substr(payload, 56, 266), '","data":', 1)`;

/** Position newer than that of any row, so that a listing starts with the newest row. */
const NEWEST = { createdAt: '9223372036854775807', arrival: '9223372036854775807' };

export interface ListingQuery {
  statement: { name: string; text: string };
  values: unknown[];
}

/**
 * Returns the query for a page of a listing. The query compares the indexed columns as one row, for example
 * `(status, created_at, arrival) < (…)`, because with `status = …` the planner may scan the index on creation time.
 *
 * @param name first part of the prepared statement's name; must differ for different `columns`
 */
export function listingQuery(name: string, columns: string, filter: TaskFilter): ListingQuery {
  const { status, action, before = NEWEST } = filter;
  const values: unknown[] = [before.createdAt, before.arrival];
  const parameter = (value: string) => `$${values.push(value)}::text`;
  const isByAction = readsActions(filter);
  const names = [name];
  const conditions: string[] = [];
  const first: string[] = [];
  const bounds: string[] = [];
  const match = (expression: string, value: string, isIndexed: boolean) => {
    const bound = parameter(value);
    // Unlike `=`, `texteq` keeps the planner from using another index, and from sorting the rows.
    conditions.push(isIndexed ? `${expression} >= ${bound}` : `texteq(${expression}, ${bound})`);
    if (!isIndexed) return;
    first.push(expression);
    bounds.push(bound);
  };
  if (status !== undefined) {
    match('status', status, !isByAction);
    names.push('status');
  }
  if (action !== undefined) {
    match(ACTION_KEY, actionText(action), isByAction);
    names.push(isByAction ? 'by-action' : 'action');
  }
  conditions.push(`(${[...first, 'created_at', 'arrival']}) < (${[...bounds, '$1::bigint', '$2::bigint']})`);
  const order = [...first, 'created_at', 'arrival'].map((column) => `${column} DESC`);
  const text = `SELECT ${columns} FROM tasks WHERE ${conditions.join(' AND ')} ORDER BY ${order} LIMIT ${LISTING_SIZE}`;
  return { statement: { name: names.join('-'), text }, values };
}
