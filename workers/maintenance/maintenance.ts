/**
 * Worker thread that moves the write-ahead log of `tasks.db` into the file, because a checkpoint in the main thread would
 * block it while the disk syncs, and that counts old rows.
 */
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { Database } from '../../db/sqlite/database.ts';
import { excessRows } from '../../db/sqlite/retention.ts';
import { systemClock } from '../shared/clock.ts';
import type { MainToMaintenance, MaintenanceToMain } from './messages.ts';

const INTERVAL_MS = 150;
/**
 * Number of pages (4 KiB) in the log from which on they are checkpointed and the log is restarted: 32 MiB. More often would
 * write the pages of the indexes, which many tasks change, again and again.
 */
const RESTART_PAGES = 8192;
/** Maximum wait of a restart for a reader. The main thread does not write meanwhile. */
const BUSY_TIMEOUT_MS = 100;

/** Number of pages in the log, and how many of them were checkpointed. */
interface LogState {
  log: number;
  checkpointed: number;
}

const { dataDir } = workerData as { dataDir: string };
const database = new Database(join(dataDir, 'tasks.db'), { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: 0 });
let held = Promise.withResolvers<void>();

parentPort?.on('message', (message: MainToMaintenance) => {
  if (message.topic === 'held') held.resolve();
  else post({ topic: 'excess', excess: excessRows(database, message.rows) });
});

let restartPages = RESTART_PAGES;
for (;;) {
  await systemClock.sleep(INTERVAL_MS);
  const { log, checkpointed } = checkpoint('NOOP');
  if (log < RESTART_PAGES) restartPages = RESTART_PAGES;
  if (log - checkpointed < RESTART_PAGES) continue;
  const state = checkpoint('PASSIVE');
  // A log that could not be checkpointed to its end has a long reader, such as a backup, which would prevent the restart.
  if (state.log < restartPages || state.checkpointed < state.log) continue;
  // Leaves less to do while writes are held.
  checkpoint('PASSIVE');
  await restart();
  // If a reader prevented the restart, the log may grow by as much again until the next try.
  restartPages = checkpoint('NOOP').log + RESTART_PAGES;
}

/** Empties the log while the main thread holds its writes. Otherwise each write would append to the log. */
async function restart(): Promise<void> {
  held = Promise.withResolvers();
  post({ topic: 'hold' });
  await held.promise;
  checkpoint('TRUNCATE');
  // The first write to an empty log waits for a sync of the log's header, which would block the main thread.
  database.transaction(() => database.rewritePage());
  post({ topic: 'resume' });
}

function checkpoint(mode: 'NOOP' | 'PASSIVE' | 'TRUNCATE'): LogState {
  return database.statement(`PRAGMA wal_checkpoint(${mode})`).get() as unknown as LogState;
}

function post(message: MaintenanceToMain): void {
  parentPort?.postMessage(message);
}
