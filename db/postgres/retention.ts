import { MAX_STEP_BYTES, MAX_STEP_ROWS, type RetentionLimits, SECONDS_PER_DAY } from '../retention-limits.ts';
import { tryWithLock } from './advisory-locks.ts';
import type { PostgresDatabase, Query } from './database.ts';

const LAST_KEPT = {
  name: 'last-kept',
  text: 'SELECT created_at, arrival FROM tasks ORDER BY created_at DESC, arrival DESC OFFSET $1 LIMIT 1',
};

const deleteFirst = (name: string, condition: string) => ({
  name,
  text: `DELETE FROM tasks WHERE ctid = ANY (ARRAY(
    SELECT tid FROM (
      SELECT ctid AS tid, bytes, sum(bytes) OVER (ORDER BY created_at, arrival ROWS UNBOUNDED PRECEDING) AS total
      FROM (
        SELECT ctid, created_at, arrival, octet_length(payload)::bigint + coalesce(octet_length(result), 0) AS bytes
        FROM tasks WHERE ${condition} ORDER BY created_at, arrival LIMIT ${MAX_STEP_ROWS}
      ) AS first
    ) AS counted WHERE total - bytes = 0 OR total <= ${MAX_STEP_BYTES}
  )) RETURNING 1 AS deleted`,
});

const DELETE_EXCESS = deleteFirst('delete-excess', '(created_at, arrival) < ($1::bigint, $2::bigint)');
const DELETE_AGED = deleteFirst('delete-aged', 'created_at < $1 AND coalesce(processed_at, created_at) < $1');

/**
 * Deletes all rows beyond the retention limits, in short transactions, unless another node is deleting rows.
 *
 * @param now current time in milliseconds since the epoch
 * @param afterStep awaited after each transaction with the number of deleted rows; returns false to stop
 */
export async function retentionRound(
  database: PostgresDatabase,
  { rows, days }: RetentionLimits,
  now: number,
  afterStep: (deleted: number) => Promise<boolean>,
): Promise<void> {
  const deleteAll = async (query: Query, statement: typeof DELETE_AGED, values: readonly number[]) => {
    for (;;) {
      const { length: deleted } = await query(statement, values);
      if (deleted === 0) return true;
      if (!(await afterStep(deleted))) return false;
    }
  };
  await database.session((query) =>
    tryWithLock(query, 'retention', async () => {
      if (rows > 0) {
        const [last] = await query<{ created_at: number; arrival: number }>(LAST_KEPT, [rows - 1]);
        if (last && !(await deleteAll(query, DELETE_EXCESS, [last.created_at, last.arrival]))) return;
      }
      if (days > 0) await deleteAll(query, DELETE_AGED, [Math.floor(now / 1000) - days * SECONDS_PER_DAY]);
    }),
  );
}
