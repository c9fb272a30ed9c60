/** Worker thread that deletes task rows beyond the retention limits. */
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/sqlite/database.ts';
import { retentionRound } from '../db/sqlite/retention.ts';
import type { RetentionStart } from './messages.ts';
import { WriteLock } from './write-lock.ts';

const BUSY_TIMEOUT_MS = 2000;
/** Ratio of a pause to the duration of the preceding transaction. Leaves two thirds of the time to other writers. */
const PAUSE_RATIO = 2;
const PAUSE_MS = 1000;
/**
 * Minimum ratio of the pause after a round to the duration of the round's last search for old rows. Limits an idle
 * thread to 5 % of a core.
 */
const SEARCH_PAUSE_RATIO = 20;
/** Number of delete transactions between two checkpoints, about 20 MiB of the write-ahead log. */
const STEPS_PER_CHECKPOINT = 20;

const { dataDir, rows, days, writeLock } = workerData as RetentionStart;
const lock = new WriteLock(writeLock);
// Automatic checkpoints are off, because they would run during a commit, while this thread holds the write lock.
const options = { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: 0 };
const database = new Database(join(dataDir, 'tasks.db'), options);
/** Runs a passive checkpoint, which never waits for other connections. */
const checkpoint = () => database.statement('PRAGMA wal_checkpoint(PASSIVE)').get();

for (;;) {
  let steps = 0;
  let stepStartedAt = performance.now();
  for (const deleted of retentionRound(database, { rows, days }, Date.now(), (work) => lock.run(work))) {
    await setTimeout((performance.now() - stepStartedAt) * PAUSE_RATIO);
    if (deleted > 0 && ++steps % STEPS_PER_CHECKPOINT === 0) checkpoint();
    stepStartedAt = performance.now();
  }
  const searchMs = performance.now() - stepStartedAt;
  if (steps > 0) checkpoint();
  await setTimeout(Math.max(PAUSE_MS, searchMs * SEARCH_PAUSE_RATIO));
}
