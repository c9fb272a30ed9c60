import { join } from 'node:path';
import { Database } from '../db/sqlite/database.ts';
import { type OrderedTask, Tasks } from '../db/sqlite/tasks.ts';
import type { StoreRows } from './task-handler.ts';
import { WriteLock } from './write-lock.ts';

/** Longest wait for another process's lock: longer than its writes take, short enough to notice a lock that is never released. */
const BUSY_TIMEOUT_MS = 2000;

/**
 * Pages in the log before a checkpoint: 32 MiB. A checkpoint writes each page once, however many tasks changed it, so rare
 * checkpoints save writes to the index pages. Throughput is a fifth higher than with SQLite's default of 4 MiB.
 */
const CHECKPOINT_PAGES = 8000;

/** Returns a function that stores rows in `tasks.db`. @param writeLock lock shared by all threads that write there */
export function sqliteRows(dataDir: string, writeLock: SharedArrayBuffer): StoreRows<OrderedTask> {
  const lock = new WriteLock(writeLock);
  const options = { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: CHECKPOINT_PAGES };
  const tasks = new Tasks(new Database(join(dataDir, 'tasks.db'), options));
  return (rows) => lock.run(() => tasks.storeAll(rows));
}
