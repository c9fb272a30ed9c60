/** Worker thread of the pool: processes tasks and stores their rows. A task is acknowledged only after its row is stored. */
import { workerData } from 'node:worker_threads';
import type { OrderedTask } from '../db/sqlite/tasks.ts';
import { perform } from './actions.ts';
import type { PoolThreadData, TaskStoreLocation } from './messages.ts';
import { poolFunction, type TaskHandler } from './task-handler.ts';

const data = workerData as TaskStoreLocation & PoolThreadData;

const processTask: TaskHandler<OrderedTask> = (body, { sequence }) => {
  const { id, action, data, created_at } = JSON.parse(body);
  const result = JSON.stringify({ output: perform(action, data) });
  const processed_at = Math.floor(Date.now() / 1000);
  return { id, payload: body, status: 'completed', result, created_at, processed_at, arrival: sequence };
};

// Imported lazily: only the module in use is loaded.
const store =
  'databaseUrl' in data
    ? (await import('./postgres-rows.ts')).postgresRows(data.databaseUrl)
    : (await import('./sqlite-rows.ts')).sqliteRows(data.dataDir, data.writeLock);

export default poolFunction(processTask, store);
