import type { Query } from './database.ts';

/** SQL expression for a lock key. Contains the schema, because all schemas of a database share their advisory locks. */
const LOCK = "hashtextextended('ticker-and-tasks ' || current_schema() || ' ' || $1, 0)";

/** Waits for the advisory lock for `purpose` and holds it until the transaction ends. */
export async function acquireLock(query: Query, purpose: string): Promise<void> {
  await query(`SELECT pg_advisory_xact_lock(${LOCK})`, [purpose]);
}

/** Runs `work` under the advisory lock for `purpose`, or returns undefined if another connection holds the lock. */
export async function tryWithLock<T>(query: Query, purpose: string, work: () => Promise<T>): Promise<T | undefined> {
  const [lock] = await query<{ acquired: boolean }>(`SELECT pg_try_advisory_lock(${LOCK}) AS acquired`, [purpose]);
  if (lock?.acquired !== true) return undefined;
  const result = await work();
  await query(`SELECT pg_advisory_unlock(${LOCK})`, [purpose]);
  return result;
}
