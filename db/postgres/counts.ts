import type { QueueCounts } from '../task-store.ts';

const COLUMNS = [
  'accepted',
  'completed',
  'retried',
  'failed',
  'cancelled',
  'dropped',
  'dead',
  'dead_bytes',
  'bytes',
  'keys',
] as const;

type Column = (typeof COLUMNS)[number];

/** Writers of one process that run at the same time. Each changes its own row in `queue_counts`. */
export type Lane = 'submissions' | 'settlements' | 'operations';

/** The row in `queue_counts` that a statement changes. No two transactions may change the same one at the same time. */
export type Counter = readonly [owner: string, lane: Lane];

const ADD = COLUMNS.map((column) => `${column} = counts.${column} + excluded.${column}`);
const ON_CONFLICT = `ON CONFLICT (owner, lane) DO UPDATE SET ${ADD}`;

/**
 * Returns SQL that adds to the counts, for a statement whose first two parameters are the owner and the lane.
 *
 * @param changes aggregates over `from`, which is a relation and its conditions
 */
export function addCounts(changes: Partial<Record<Column, string>>, from: string): string {
  const names = Object.keys(changes);
  return `INSERT INTO queue_counts AS counts (owner, lane, ${names})
    SELECT $1::text, $2::text, ${Object.values(changes)} FROM ${from} HAVING count(*) > 0 ${ON_CONFLICT}`;
}

/** Messages that are no dead letters, their size, and the number of idempotency keys. */
export const USED = `SELECT sum(accepted - completed - cancelled - dropped - dead)::bigint AS length,
  sum(bytes)::bigint AS bytes, sum(keys)::bigint AS keys, sum(dead)::bigint AS dead,
  sum(dead_bytes)::bigint AS dead_bytes FROM queue_counts`;

/** Adds the counts of a process that has ended to the first row. */
export const FOLD_COUNTS = `WITH ended AS (DELETE FROM queue_counts WHERE owner = $1 RETURNING *)
    INSERT INTO queue_counts AS counts (owner, lane, ${COLUMNS})
    SELECT '', '', ${COLUMNS.map((column) => `sum(${column})`)} FROM ended HAVING count(*) > 0 ${ON_CONFLICT}`;

/** Counts of one moment. Messages in flight are few; dead letters at the front are bounded. */
export const COUNTS = `SELECT *, accepted - completed - cancelled - dropped - dead - delayed - "inFlight" AS waiting
    FROM (SELECT ${COLUMNS.map((column) => `sum(${column})::bigint AS ${column}`)} FROM queue_counts) AS totals,
    (SELECT
      (SELECT count(*) FROM messages WHERE state = 'running') AS "inFlight",
      (SELECT count(*) FROM messages WHERE state = 'waiting' AND run_at > $1) AS delayed,
      (SELECT accepted_at FROM messages WHERE state <> 'failed' ORDER BY arrival LIMIT 1) AS oldest
    ) AS present`;

/** A row of {@link COUNTS}. */
export type CountsRow = Omit<QueueCounts, 'oldest' | 'evicted'> & Record<Column, number> & { oldest: number | null };
