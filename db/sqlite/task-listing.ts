import { actionText, readsActions, type TaskFilter } from '../task-filter.ts';

/** Maximum number of rows in a response to `GET /tasks`, set by the specification. */
export const LISTING_SIZE = 100;

/**
 * SQL expression indexed by `tasks_by_action`: the action in the payload, or `"` if the action is too long for the
 * index.
 */
const ACTION_KEY = `substr(payload, 56, instr(substr(payload, 56, 266), '","data":') - 1)`;

// `created_at` has a resolution of one second. Rows with the same value are ordered by rowid, which is the order of arrival.
const NEWEST = 'ORDER BY created_at DESC, rowid DESC LIMIT ?';

/** A query, and the values of its parameters except the last, which is the maximum number of rows. */
export interface ListingQuery {
  sql: string;
  values: (string | number)[];
}

/**
 * Returns the queries whose results, one after the other, form a listing. A listing with `before` needs two queries,
 * one for the same second and one for earlier seconds, because SQLite cannot use the index for both at the same time.
 */
export function listingQueries(columns: string, filter: TaskFilter): ListingQuery[] {
  const { conditions, values } = matching(filter);
  const query = (bounds: string[], ...limits: number[]): ListingQuery => {
    const where = [...conditions, ...bounds].join(' AND ');
    const sql = `SELECT ${columns} FROM tasks ${where && `WHERE ${where} `}${NEWEST}`;
    return { sql, values: [...values, ...limits] };
  };
  const { before } = filter;
  if (before === undefined) return [query([])];
  const { createdAt, arrival } = before;
  return [query(['created_at = ?', 'rowid < ?'], createdAt, arrival), query(['created_at < ?'], createdAt)];
}

/** Returns the conditions for a status and an action. A unary `+` keeps SQLite from using the index on its operand. */
function matching({ status, action }: TaskFilter) {
  const conditions: string[] = [];
  const values: string[] = [];
  const isByAction = readsActions({ status, action });
  if (action !== undefined) {
    const { withEnd, short } = actionText(action);
    conditions.push(`${isByAction ? '' : '+'}${ACTION_KEY} = ?`);
    values.push(short ?? '"');
    if (short === undefined) {
      conditions.push('substr(payload, 56, length(?)) = ?');
      values.push(withEnd, withEnd);
    }
  }
  if (status !== undefined) {
    conditions.push(`${isByAction ? '+' : ''}status = ?`);
    values.push(status);
  }
  return { conditions, values };
}
