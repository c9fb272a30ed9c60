/** Worker thread of the pool: processes tasks and stores their rows. A task is acknowledged only after its row is stored. */
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/sqlite/database.ts';
import { type OrderedTask, Tasks } from '../db/sqlite/tasks.ts';
import { perform } from './actions.ts';
import type { PoolThreadData, TaskStoreLocation } from './messages.ts';
import { poolFunction, type StoreRows, type TaskHandler } from './task-batch.ts';
import { WriteLock } from './write-lock.ts';

/** Maximum wait for the database lock of another writer: longer than its writes take, but short enough to detect a stuck lock. */
const LOCK_TIMEOUT_MS = 2000;
/**
 * Number of pages in SQLite's write-ahead log at which a checkpoint runs (32 MiB). A checkpoint writes each page once, even if many
 * tasks changed it, so rare checkpoints save writes of index pages. Throughput is a fifth higher than with the default of 4 MiB.
 */
const CHECKPOINT_PAGES = 8000;
/** Upper bound on PostgreSQL's statement timeout, enough for the largest row. `PostgresTasks` sets a shorter one for smaller rows. */
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
  // The PostgreSQL client is imported lazily, because a single node stores its rows in SQLite.
  const { PostgresDatabase } = await import('../db/postgres/database.ts');
  const { PostgresTasks } = await import('../db/postgres/tasks.ts');
  const limits = { timeLimitMs: STATEMENT_TIMEOUT_MS, lockLimitMs: LOCK_TIMEOUT_MS };
  const tasks = new PostgresTasks(new PostgresDatabase(databaseUrl, { connections: 1, ...limits }));
  return (rows) => tasks.storeAll(rows);
}

const store = 'databaseUrl' in data ? await postgresRows(data.databaseUrl) : sqliteRows(data.dataDir);

export default poolFunction(processTask, store);
