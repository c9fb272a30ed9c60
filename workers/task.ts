/** A pool thread: computes the results of tasks and stores their rows, so that each is there before its ack. */
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/database.ts';
import { type ArrivedTask, Tasks } from '../db/tasks.ts';
import { perform } from './actions.ts';
import type { PoolThreadData } from './messages.ts';
import { poolFunction, type StoreRows, type TaskHandler } from './task-handler.ts';
import { WriteLock } from './write-lock.ts';

/** Long enough to wait out what other processes write, short enough to find a stuck lock. */
const BUSY_TIMEOUT_MS = 2000;

/**
 * 32 MiB. Pages that many tasks write to, those of the indexes, are moved once for all of them: a fifth more tasks are
 * worked off than with SQLite's own 4 MiB.
 */
const CHECKPOINT_PAGES = 8000;

const { dataDir, writeLock } = workerData as { dataDir: string } & PoolThreadData;
const lock = new WriteLock(writeLock);
const options = { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: CHECKPOINT_PAGES };
const tasks = new Tasks(new Database(join(dataDir, 'tasks.db'), options));

const work: TaskHandler<ArrivedTask> = (body, { arrival }) => {
  const { id, action, data, created_at } = JSON.parse(body);
  const result = JSON.stringify({ output: perform(action, data) });
  const processed_at = Math.floor(Date.now() / 1000);
  return { id, payload: body, status: 'completed', result, created_at, processed_at, arrival };
};

const store: StoreRows<ArrivedTask> = (rows) => lock.run(() => tasks.storeAll(rows));

export default poolFunction(work, store);
