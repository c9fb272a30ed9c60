import type { SearchDialect } from '../search.ts';
import { actionText, rowColumns } from '../task-rows.ts';

/** PostgreSQL uses the index `tasks_by_action` only if its expression equals `ACTION_KEY`. */
const ACTION_KEY = `split_part(substr(payload, 56, 266), '","data":', 1)`;

export const dialect: SearchDialect = {
  // Without `,"created_at":1764194026}` at the end.
  data: (column) => `left(substr(${column}, strpos(${column}, '"data":') + 7), -25)`,
  like: 'ILIKE',
  among: (column, list) => `${column} = ANY(${list})`,
  list: (values) => values,
  encodeName: actionText,
  decodeName: (text) => JSON.parse(`"${text}"`),
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
  messageColumns: ', started_at AS "startedAt", progress, owner AS node',
  rowArrival: 'arrival',
  rowAction: ACTION_KEY,
  ordersByFixed: true,
};

/** Reads an action, which is stored escaped as in JSON. */
export function actionOf(text: string | null): string | undefined {
  return text === null ? undefined : dialect.decodeName(text);
}

/** Returns a text as PostgreSQL stores it. */
export function storable(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed();
}

/** PostgreSQL refuses a string that contains a NUL character. */
export function isText(text: string): boolean {
  return !text.includes('\0');
}

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

export const STORE_ROWS = `WITH given AS (
    SELECT * FROM json_populate_recordset(NULL::tasks, $1)
  ), done AS (
    DELETE FROM acks WHERE arrival = ANY(ARRAY(SELECT arrival FROM given))
  ) ${insertRows(`SELECT ${rowColumns.detailed}, arrival, delivery FROM given ORDER BY id`)}`;
