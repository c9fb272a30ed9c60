import { RETENTION_SLICE } from '../task-store.ts';
import type { Database } from './database.ts';

interface AgedRow {
  rowid: number;
  created_at: number;
  /** Completion time of the task in Unix seconds, or its submission time if unknown. */
  ended_at: number;
  bytes: number;
}

const COLUMNS = `rowid, created_at, ifnull(processed_at, created_at) AS ended_at,
  octet_length(payload) + ifnull(octet_length(result), 0) + ifnull(octet_length(history), 0) AS bytes`;
const FIRST_ARRIVED = `SELECT ${COLUMNS} FROM tasks ORDER BY rowid LIMIT ?`;
const FIRST_SUBMITTED = `SELECT ${COLUMNS} FROM tasks WHERE created_at < ? AND (created_at, rowid) > (?, ?)
  ORDER BY created_at, rowid LIMIT ${RETENTION_SLICE.maxLength}`;
const DELETE = 'DELETE FROM tasks WHERE rowid = ?';

/** Returns the number of rows beyond the newest `rows`. Reads a whole index, so it takes long for a large table. */
export function excessRows(database: Database, rows: number): number {
  const { count } = database.get('SELECT count(*) AS count FROM tasks') as { count: number };
  return Math.max(0, count - rows);
}

/**
 * Deletes rows beyond the retention limits. Each step runs in the caller's transaction, and takes a few milliseconds.
 *
 * @param excess number of rows to delete, the oldest first
 * @param before rows of tasks completed before this time (Unix seconds) are deleted, too
 */
export function* retentionPass(
  database: Database,
  excess: number,
  before: number | undefined,
): Generator<void, void, void> {
  for (let left = excess; left > 0; ) {
    const step = withinBytes(database.statement(FIRST_ARRIVED).all(Math.min(left, RETENTION_SLICE.maxLength)));
    if (step.length === 0) break;
    deleteRows(database, step);
    left -= step.length;
    yield;
  }
  if (before === undefined) return;
  let previous = { created_at: Number.MIN_SAFE_INTEGER, rowid: Number.MIN_SAFE_INTEGER };
  for (;;) {
    const step = withinBytes(database.statement(FIRST_SUBMITTED).all(before, previous.created_at, previous.rowid));
    const last = step.at(-1);
    if (last === undefined) return;
    previous = last;
    deleteRows(
      database,
      step.filter(({ ended_at }) => ended_at < before),
    );
    yield;
  }
}

function deleteRows(database: Database, rows: readonly AgedRow[]): void {
  for (const { rowid } of rows) database.statement(DELETE).run(rowid);
}

/** Returns the first rows, up to a total of {@link RETENTION_SLICE.maxBytes} bytes, but at least one row. */
function withinBytes(rows: unknown[]): AgedRow[] {
  let bytes = 0;
  return (rows as AgedRow[]).filter((row, index) => {
    bytes += row.bytes;
    return index === 0 || bytes <= RETENTION_SLICE.maxBytes;
  });
}
