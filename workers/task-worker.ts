/** Worker thread of the pool. Processes tasks and stores their rows. */
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/sqlite/database.ts';
import { type OrderedTask, Tasks } from '../db/sqlite/tasks.ts';
import { perform } from './actions.ts';
import type { PoolThreadData, TaskWorkerStart } from './messages.ts';
import type { ModuleHandlers, QueuedTask } from './module-handlers.ts';
import { poolFunction, type StoreRows, type TaskHandler } from './run-batch.ts';
import { WriteLock } from './write-lock.ts';

/** Longest wait for a database lock. Longer than a write takes, but short enough to detect a stuck lock. */
const LOCK_TIMEOUT_MS = 2000;
// 32 MiB of SQLite's write-ahead log. Throughput is a fifth higher than with the default of 4 MiB, because index pages
// changed by many tasks are written less often.
const CHECKPOINT_PAGES = 8000;
/** Enough for the largest row. `PostgresTasks` sets shorter client-side timeouts. */
const STATEMENT_TIMEOUT_MS = 300_000;

const data = workerData as TaskWorkerStart & PoolThreadData;

// Piscina has read this setting of the pool. Handlers and their child processes must not inherit it.
delete process.env.PISCINA_DISABLE_ATOMICS;

const processTask: TaskHandler<OrderedTask> = (body, delivery) => {
  const task: QueuedTask = JSON.parse(body);
  const { id, created_at } = task;
  const toRow = (output: string): OrderedTask => {
    const result = `{"output":${output}}`;
    const processed_at = Math.floor(Date.now() / 1000);
    return { id, payload: body, status: 'completed', result, created_at, processed_at, arrival: delivery.sequence };
  };
  return moduleHandlers?.run(task, delivery, toRow) ?? toRow(JSON.stringify(perform(task.action, task.data)));
};

/** Imports `ModuleHandlers` lazily, because most installations have no handlers module. */
async function startHandlers(): Promise<ModuleHandlers | undefined> {
  if (data.handlers === undefined) return undefined;
  const { ModuleHandlers } = await import('./module-handlers.ts');
  return ModuleHandlers.start(data.handlers, data.timeoutMs);
}

function sqliteRows(dataDir: string): StoreRows<OrderedTask> {
  const lock = new WriteLock(data.writeLock);
  const options = { busyTimeoutMs: LOCK_TIMEOUT_MS, checkpointPages: CHECKPOINT_PAGES };
  const tasks = new Tasks(new Database(join(dataDir, 'tasks.db'), options));
  return (rows) => lock.run(() => tasks.storeAll(rows));
}

async function postgresRows(databaseUrl: string): Promise<StoreRows<OrderedTask>> {
  // Imported lazily, because a single node stores its rows in SQLite.
  const { PostgresDatabase } = await import('../db/postgres/database.ts');
  const { PostgresTasks } = await import('../db/postgres/tasks.ts');
  const limits = { timeLimitMs: STATEMENT_TIMEOUT_MS, lockLimitMs: LOCK_TIMEOUT_MS };
  const tasks = new PostgresTasks(new PostgresDatabase(databaseUrl, { connections: 1, ...limits }));
  return (rows) => tasks.storeAll(rows);
}

const moduleHandlers = await startHandlers();
const store = 'databaseUrl' in data ? await postgresRows(data.databaseUrl) : sqliteRows(data.dataDir);

export default poolFunction(processTask, store);
