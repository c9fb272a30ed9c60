import { actionText, readsActions, type TaskFilter } from '../task-filter.ts';

/** Maximum number of rows in a response to `GET /tasks`. */
export const LISTING_SIZE = 100;

// SQLite uses the index `tasks_by_action` only if its expression equals `ACTION_KEY`. The expression yields `"` for an
// action that is longer than `MAX_ACTION_LENGTH`.
const ACTION_KEY = `substr(payload, 56, instr(substr(payload, 56, 266), '","data":') - 1)`;

// Rows with the same `created_at`, in seconds, are ordered by rowid, which is the order of arrival.
const NEWEST = 'ORDER BY created_at DESC, rowid DESC LIMIT ?';

/** A query and the values of its parameters, except the last, which is the maximum number of rows. */
export interface ListingQuery {
  sql: string;
  values: (string | number)[];
}

/** Returns queries whose concatenated results form a listing. With `before`, one query could not use the index. */
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

/** Returns the SQL conditions. If `status` and `action` are set, a unary `+` disables the index with more matches. */
function matching({ status, action }: TaskFilter) {
  const conditions: string[] = [];
  const values: string[] = [];
  const isByAction = readsActions({ status, action });
  if (action !== undefined) {
    conditions.push(`${isByAction ? '' : '+'}${ACTION_KEY} = ?`);
    values.push(actionText(action));
  }
  if (status !== undefined) {
    conditions.push('status = ?');
    values.push(status);
    // SQLite uses the index on statuses only if its condition is part of the query.
    if (status !== 'completed') conditions.push("status <> 'completed'");
  }
  return { conditions, values };
}
