import { join } from 'node:path';
import { Database } from '../db/database.ts';
import { type ArrivedTask, Tasks } from '../db/tasks.ts';
import type { StoreRows } from './task-handler.ts';
import { WriteLock } from './write-lock.ts';

/** Long enough to wait out what other processes write, short enough to find a stuck lock. */
const BUSY_TIMEOUT_MS = 2000;

/**
 * 32 MiB. Pages that many tasks write to, those of the indexes, are moved once for all of them: a fifth more tasks are
 * worked off than with SQLite's own 4 MiB.
 */
const CHECKPOINT_PAGES = 8000;

/** Stores rows in `tasks.db`. @param writeLock the turn of all threads that write there */
export function sqliteRows(dataDir: string, writeLock: SharedArrayBuffer): StoreRows<ArrivedTask> {
  const lock = new WriteLock(writeLock);
  const options = { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: CHECKPOINT_PAGES };
  const tasks = new Tasks(new Database(join(dataDir, 'tasks.db'), options));
  return (rows) => lock.run(() => tasks.storeAll(rows));
}
