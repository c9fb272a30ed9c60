/** Worker thread of the pool: processes tasks and stores their rows. A task is acknowledged only after its row is stored. */
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/sqlite/database.ts';
import { type OrderedTask, Tasks } from '../db/sqlite/tasks.ts';
import { perform } from './actions.ts';
import type { PoolThreadData, TaskStoreLocation } from './messages.ts';
import { poolFunction, type StoreRows, type TaskHandler } from './task-batch.ts';
import { WriteLock } from './write-lock.ts';

/** Longest wait for another writer's lock: longer than its writes take, short enough to notice a lock that is never released. */
const LOCK_TIMEOUT_MS = 2000;
/**
 * Pages in SQLite's log before a checkpoint: 32 MiB. A checkpoint writes each page once, however many tasks changed it, so rare
 * checkpoints save writes to the index pages. Throughput is a fifth higher than with SQLite's default of 4 MiB.
 */
const CHECKPOINT_PAGES = 8000;
/** PostgreSQL's statement timeout, long enough for the largest possible row. `PostgresTasks` has a shorter one by row size. */
const STATEMENT_TIMEOUT_MS = 300_000;

const data = workerData as TaskStoreLocation & PoolThreadData;

const processTask: TaskHandler<OrderedTask> = (body, { sequence }) => {
  const { id, action, data, created_at } = JSON.parse(body);
  const result = JSON.stringify({ output: perform(action, data) });
  const processed_at = Math.floor(Date.now() / 1000);
  return { id, payload: body, status: 'completed', result, created_at, processed_at, arrival: sequence };
};

function sqliteRows(dataDir: string): StoreRows<OrderedTask> {
  const lock = new WriteLock(data.writeLock);
  const options = { busyTimeoutMs: LOCK_TIMEOUT_MS, checkpointPages: CHECKPOINT_PAGES };
  const tasks = new Tasks(new Database(join(dataDir, 'tasks.db'), options));
  return (rows) => lock.run(() => tasks.storeAll(rows));
}

async function postgresRows(databaseUrl: string): Promise<StoreRows<OrderedTask>> {
  // Imported lazily, because a single node needs no client of PostgreSQL.
  const { PostgresDatabase } = await import('../db/postgres/database.ts');
  const { PostgresTasks } = await import('../db/postgres/tasks.ts');
  const limits = { timeLimitMs: STATEMENT_TIMEOUT_MS, lockLimitMs: LOCK_TIMEOUT_MS };
  const tasks = new PostgresTasks(new PostgresDatabase(databaseUrl, { connections: 1, ...limits }));
  return (rows) => tasks.storeAll(rows);
}

const store = 'databaseUrl' in data ? await postgresRows(data.databaseUrl) : sqliteRows(data.dataDir);

export default poolFunction(processTask, store);
