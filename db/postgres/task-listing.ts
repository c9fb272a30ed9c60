import { LISTING_SIZE } from '../sqlite/task-listing.ts';
import { actionText, readsActions, type TaskFilter } from '../task-filter.ts';

/** Expression of the index `tasks_by_action`: the action as in the payload, or the part of it that the index reads. */
const ACTION_KEY = `split_part(substr(payload, 56, 266), '","data":', 1)`;

/** Position after that of every row. */
const NEWEST = { createdAt: '9223372036854775807', arrival: '9223372036854775807' };

/** A prepared statement and the values of its parameters. */
export interface ListingQuery {
  statement: { name: string; text: string };
  values: unknown[];
}

/**
 * Returns the query of a listing. The row comparison and the ORDER BY clause begin with the first column of an index, so that the planner
 * uses this index. With `=` for the first column, the planner may choose the index on creation time and, if few rows match, scan all of it.
 *
 * @param name start of the statement's name, different for different `columns`
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
    // Unlike `=`, the function neither uses another index nor makes the planner expect few rows, which it would sort.
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
    const { short, read, withEnd } = actionText(action);
    match(ACTION_KEY, short ?? read, isByAction);
    if (short === undefined) {
      const whole = parameter(withEnd);
      conditions.push(`texteq(substr(payload, 56, length(${whole})), ${whole})`);
    }
    names.push(isByAction ? 'by-action' : 'action', ...(short === undefined ? ['long'] : []));
  }
  conditions.push(`(${[...first, 'created_at', 'arrival']}) < (${[...bounds, '$1::bigint', '$2::bigint']})`);
  const order = [...first, 'created_at', 'arrival'].map((column) => `${column} DESC`);
  const text = `SELECT ${columns} FROM tasks WHERE ${conditions.join(' AND ')} ORDER BY ${order} LIMIT ${LISTING_SIZE}`;
  return { statement: { name: names.join('-'), text }, values };
}
