import type { SearchDialect } from '../search.ts';
import { type DetailedRow, rowColumns } from '../task-rows.ts';
import type { Database } from './database.ts';
import { BYTES } from './messages.ts';

// SQLite uses the index `tasks_by_action` only if its expression equals `ACTION_KEY`. The expression yields `"` for an
// action that is longer than `MAX_ACTION_LENGTH`.
const ACTION_KEY = `substr(payload, 56, instr(substr(payload, 56, 266), '","data":') - 1)`;

export const dialect: SearchDialect = {
  // Without `,"created_at":1764194026}` at the end.
  data: (column) => {
    const start = `instr(${column}, '"data":')`;
    return `substr(${column}, ${start} + 7, length(${column}) - ${start} - 31)`;
  },
  like: 'LIKE',
  among: (column, list) => `${column} IN (SELECT value FROM json_each(${list}))`,
  list: (values) => JSON.stringify(values),
  encodeName: (text) => text,
  decodeName: (text) => text,
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
  messageColumns: '',
  rowArrival: 'rowid',
  rowAction: ACTION_KEY,
  ordersByFixed: false,
};

const VALUES = '?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, NULL, NULL';
const STORE = `INSERT OR IGNORE INTO tasks (rowid, ${rowColumns.detailed}) VALUES (?1, ${VALUES})`;
// If another task has the rowid, NULL makes SQLite assign a new one. REPLACE would delete the other task's row.
const REPLACE = `INSERT OR REPLACE INTO tasks (rowid, ${rowColumns.detailed})
  VALUES (CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE rowid = ?1 AND id <> ?2) THEN NULL ELSE ?1 END, ${VALUES})`;

// Most rows have neither, so the other statements need no parameters for them.
const SET_VIEWS = 'UPDATE tasks SET limit_key = ?, submitter = ? WHERE id = ?';

/**
 * Writes the row of a completed task, which replaces an earlier row with the same id.
 *
 * @param arrival position in the order of acceptance, which becomes the rowid unless another task has it
 */
export function storeRow(database: Database, arrival: number, row: DetailedRow): void {
  const { id, payload, status, result, created_at, processed_at } = row;
  const { attempts = null, waited_ms = null, ran_ms = null, started_at = null, ended_at = null } = row;
  const { node = null, history = null, limit_key = null, submitter = null } = row;
  const whole = [id, payload, status, result, created_at, processed_at] as const;
  const values = [arrival, ...whole, attempts, waited_ms, ran_ms, started_at, ended_at, node, history] as const;
  // Only a row with this id or rowid prevents the insertion, and looking for one first would take longer.
  if (database.run(STORE, ...values) === 0) database.run(REPLACE, ...values);
  if (limit_key !== null || submitter !== null) database.run(SET_VIEWS, limit_key, submitter, id);
}
