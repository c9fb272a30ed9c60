import type { SearchDialect, SearchSteps } from '../search.ts';
import { actionText, type SearchPage } from '../task-rows.ts';
import type { Query } from './database.ts';

/** PostgreSQL uses the index `tasks_by_action` only if its expression equals `ACTION_KEY`. */
export const ACTION_KEY = `split_part(substr(payload, 56, 266), '","data":', 1)`;

export const dialect: SearchDialect = {
  // Without `,"created_at":1764194026}` at the end.
  data: (column) => `left(substr(${column}, strpos(${column}, '"data":') + 7), -25)`,
  like: 'ILIKE',
  among: (column, list) => `${column} = ANY(${list})`,
  list: (values) => values,
  name: actionText,
  plain: storable,
  states: {
    scheduled: "state = 'scheduled'",
    retrying: "state = 'retrying'",
    limited: "state = 'limited'",
    waiting: "state = 'waiting'",
    running: "state = 'running'",
    failed: "state = 'failed'",
  },
  messageBytes: 'bytes',
  rowArrival: 'arrival',
  rowAction: ACTION_KEY,
  ordersByFixed: true,
};

export async function runSearch(query: Query, steps: SearchSteps): Promise<SearchPage> {
  let step = steps.next([]);
  while (!step.done) step = steps.next(await query(...step.value));
  return step.value;
}

/** Returns a reason as PostgreSQL stores it. */
export function storable(reason: string): string {
  return reason.replaceAll('\0', '\ufffd').toWellFormed();
}
