import { MAX_STEP_BYTES, MAX_STEP_ROWS, type RetentionLimits, SECONDS_PER_DAY } from '../retention-limits.ts';
import type { Database } from './database.ts';

interface AgedRow {
  rowid: number;
  created_at: number;
  /** Completion time of the task in Unix seconds, or its submission time if unknown. */
  ended_at: number;
  bytes: number;
}

const COLUMNS = `rowid, created_at, ifnull(processed_at, created_at) AS ended_at,
  octet_length(payload) + ifnull(octet_length(result), 0) AS bytes`;
const COUNT = 'SELECT count(*) AS count FROM tasks';
const FIRST_ARRIVED = `SELECT ${COLUMNS} FROM tasks ORDER BY rowid LIMIT ?`;
const FIRST_SUBMITTED = `SELECT ${COLUMNS} FROM tasks WHERE created_at < ? AND (created_at, rowid) > (?, ?)
  ORDER BY created_at, rowid LIMIT ${MAX_STEP_ROWS}`;
// The second condition keeps a row whose task has completed again since the row was read.
const DELETE = 'DELETE FROM tasks WHERE rowid = ? AND ifnull(processed_at, created_at) <= ?';

/** Runs `work`, which deletes rows in one transaction. The function may hold a lock during `work`. */
type Write = (work: () => void) => void;

/**
 * Deletes all rows beyond the limits in short transactions, and yields the number of rows deleted by each.
 *
 * @param now current time in milliseconds since the epoch
 */
export function* retentionRound(
  database: Database,
  { rows, days }: RetentionLimits,
  now: number,
  write: Write,
): Generator<number, void, void> {
  if (rows > 0) yield* deleteExcess(database, rows, write);
  if (days > 0) yield* deleteAged(database, Math.floor(now / 1000) - days * SECONDS_PER_DAY, write);
}

function* deleteExcess(database: Database, rows: number, write: Write) {
  const { count } = database.statement(COUNT).get() as { count: number };
  // The rows are counted only once, because no other thread deletes rows.
  for (let excess = count - rows; excess > 0; ) {
    const step = withinBytes(database.statement(FIRST_ARRIVED).all(Math.min(excess, MAX_STEP_ROWS)));
    if (step.length === 0) return;
    write(() => deleteRows(database, step));
    excess -= step.length;
    yield step.length;
  }
}

/** Deletes the rows of tasks completed before `time` (Unix seconds). */
function* deleteAged(database: Database, time: number, write: Write) {
  let previous = { created_at: Number.MIN_SAFE_INTEGER, rowid: Number.MIN_SAFE_INTEGER };
  for (;;) {
    const step = withinBytes(database.statement(FIRST_SUBMITTED).all(time, previous.created_at, previous.rowid));
    const last = step.at(-1);
    if (last === undefined) return;
    previous = last;
    const aged = step.filter(({ ended_at }) => ended_at < time);
    if (aged.length > 0) write(() => deleteRows(database, aged));
    yield aged.length;
  }
}

function deleteRows(database: Database, rows: readonly AgedRow[]): void {
  database.transaction(false, () => {
    for (const { rowid, ended_at } of rows) database.statement(DELETE).run(rowid, ended_at);
  });
}

/** Returns the first rows, up to a total of {@link MAX_STEP_BYTES} bytes, but at least one row. */
function withinBytes(rows: unknown[]): AgedRow[] {
  let bytes = 0;
  return (rows as AgedRow[]).filter((row, index) => {
    bytes += row.bytes;
    return index === 0 || bytes <= MAX_STEP_BYTES;
  });
}
