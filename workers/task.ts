/** A pool thread: computes the results of tasks and stores their rows, so that each is there before its ack. */
import { workerData } from 'node:worker_threads';
import type { OrderedTask } from '../db/sqlite/tasks.ts';
import { perform } from './actions.ts';
import type { PoolThreadData, TaskStoreLocation } from './messages.ts';
import { poolFunction, type TaskHandler } from './task-handler.ts';

const data = workerData as TaskStoreLocation & PoolThreadData;

const work: TaskHandler<OrderedTask> = (body, { arrival }) => {
  const { id, action, data, created_at } = JSON.parse(body);
  const result = JSON.stringify({ output: perform(action, data) });
  const processed_at = Math.floor(Date.now() / 1000);
  return { id, payload: body, status: 'completed', result, created_at, processed_at, arrival };
};

// Each is loaded only where it is used.
const store =
  'databaseUrl' in data
    ? (await import('./postgres-rows.ts')).postgresRows(data.databaseUrl)
    : (await import('./sqlite-rows.ts')).sqliteRows(data.dataDir, data.writeLock);

export default poolFunction(work, store);
