import type { SearchDialect, SearchSteps } from '../search.ts';
import type { SearchPage } from '../task-rows.ts';
import type { Database } from './database.ts';
import { BYTES } from './messages.ts';

// SQLite uses the index `tasks_by_action` only if its expression equals `ACTION_KEY`. The expression yields `"` for an
// action that is longer than `MAX_ACTION_LENGTH`.
export const ACTION_KEY = `substr(payload, 56, instr(substr(payload, 56, 266), '","data":') - 1)`;

export const dialect: SearchDialect = {
  // Without `,"created_at":1764194026}` at the end.
  data: (column) => {
    const start = `instr(${column}, '"data":')`;
    return `substr(${column}, ${start} + 7, length(${column}) - ${start} - 31)`;
  },
  like: 'LIKE',
  among: (column, list) => `${column} IN (SELECT value FROM json_each(${list}))`,
  list: (values) => JSON.stringify(values),
  name: (text) => text,
  plain: (text) => text,
  states: {
    scheduled: "state = 'scheduled'",
    retrying: "state = 'retrying'",
    limited: 'place < 2',
    waiting: "state = 'waiting'",
    running: "state = 'running'",
    failed: 'failed_at IS NOT NULL',
  },
  messageBytes: BYTES,
  rowArrival: 'rowid',
  rowAction: ACTION_KEY,
  ordersByFixed: false,
};

export function runSearch(database: Database, steps: SearchSteps): SearchPage {
  let step = steps.next([]);
  while (!step.done) {
    const [text, values] = step.value;
    step = steps.next(database.all(text.replaceAll('$', '?'), ...(values as (string | number | null)[])));
  }
  return step.value;
}
