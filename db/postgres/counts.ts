import { actionText } from '../task-rows.ts';
import type { QueueCounts } from '../task-store.ts';
import type { BoundStatement } from './database.ts';

const COLUMNS = [
  'accepted',
  'completed',
  'retried',
  'failed',
  'cancelled',
  'dropped',
  'dead',
  'dead_bytes',
  'scheduled',
  'retrying',
  'bytes',
  'keys',
] as const;

type Column = (typeof COLUMNS)[number];

/** Writers of one process that run at the same time. Each changes its own row in `queue_counts`. */
export type Lane = 'submissions' | 'groups' | 'settlements' | 'operations';

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

/**
 * Returns the statement that comes first in each transaction that changes messages.
 *
 * @param actions actions of a transaction that only adds messages. Undefined if any may be concerned
 */
export function lockLimits(now: number, actions?: readonly (string | undefined)[]): BoundStatement {
  const texts = actions?.flatMap((action) => (action === undefined ? [] : [actionText(action)]));
  return ['SELECT lock_limits($1::bigint, $2::text[])', [now, texts ?? null]];
}

/** Messages that are no dead letters, their size, and the number of idempotency keys. */
export const USED = `SELECT sum(accepted - completed - cancelled - dropped - dead)::bigint AS length,
  sum(bytes)::bigint AS bytes, sum(keys)::bigint AS keys, sum(dead)::bigint AS dead,
  sum(dead_bytes)::bigint AS dead_bytes FROM queue_counts`;

/** Adds the counts of a process that has ended to the first row. */
export const FOLD_COUNTS = `WITH ended AS (DELETE FROM queue_counts WHERE owner = $1 RETURNING *)
    INSERT INTO queue_counts AS counts (owner, lane, ${COLUMNS})
    SELECT '', '', ${COLUMNS.map((column) => `sum(${column})`)} FROM ended HAVING count(*) > 0 ${ON_CONFLICT}`;

/**
 * Returns SQL of the relation `placed`, which adds their rounds to the messages of a relation that are going to wait.
 * Messages of limited actions, of which few may wait, are counted apart.
 *
 * @param order order of the messages of one key
 */
export const withRounds = (from: string, order: string) => `rounds AS (
    SELECT priority, limit_key, next_round(priority, limit_key) AS first
    FROM (SELECT DISTINCT priority, limit_key FROM ${from}) AS keys
  ), placed AS (
    SELECT ${from}.*, rounds.first - 1 + row_number() OVER (
      PARTITION BY priority, limit_key, place IS NULL ORDER BY ${order}
    ) AS round
    FROM ${from} JOIN rounds USING (priority, limit_key)
  )`;

/** Changes of the counts by scheduled and retrying messages that leave these states. */
export const LEAVING_LATER = {
  scheduled: "-count(*) FILTER (WHERE state = 'scheduled')",
  retrying: "-count(*) FILTER (WHERE state = 'retrying')",
};

/** Counts of one moment. Messages in flight are few. */
export const COUNTS = `SELECT *, accepted - completed - cancelled - dropped - dead - scheduled - retrying - "inFlight" - limited
      AS waiting
    FROM (SELECT ${COLUMNS.map((column) => `sum(${column})::bigint AS ${column}`)} FROM queue_counts) AS totals,
    (SELECT
      (SELECT count(*) FROM messages WHERE state = 'running') AS "inFlight",
      (SELECT count(*) FROM messages WHERE state = 'running' AND started_at IS NOT NULL) AS running,
      (SELECT coalesce(sum(limited), 0)::bigint FROM limits) AS limited,
      (SELECT min(run_at) FROM messages WHERE state = 'waiting') AS oldest
    ) AS present`;

export type CountsRow = Omit<QueueCounts, 'oldest' | 'evicted'> & Record<Column, number> & { oldest: number | null };
