import { PostgresDatabase } from '../db/postgres/database.ts';
import { PostgresTasks } from '../db/postgres/tasks.ts';
import type { OrderedTask } from '../db/sqlite/tasks.ts';
import type { StoreRows } from './task-handler.ts';

/** Statement timeout on the server, long enough for the largest possible row. `PostgresTasks` has a shorter one by row size. */
const TIME_LIMIT_MS = 300_000;
/** Longest wait for a lock. */
const LOCK_LIMIT_MS = 2000;

/** Returns a function that stores rows in PostgreSQL, on one connection. */
export function postgresRows(databaseUrl: string): StoreRows<OrderedTask> {
  const limits = { timeLimitMs: TIME_LIMIT_MS, lockLimitMs: LOCK_LIMIT_MS };
  const tasks = new PostgresTasks(new PostgresDatabase(databaseUrl, { connections: 1, ...limits }));
  return (rows) => tasks.storeAll(rows);
}
