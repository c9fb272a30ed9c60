/** Worker thread that deletes task rows beyond the retention limits, in short steps with pauses, until it is terminated. */
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/sqlite/database.ts';
import { TaskRetention } from '../db/sqlite/retention.ts';
import type { RetentionStart } from './messages.ts';
import { retentionRound } from './retention-round.ts';
import { WriteLock } from './write-lock.ts';

const BUSY_TIMEOUT_MS = 2000;
/** Pause after each delete transaction, as a multiple of its duration. Other threads can store rows two thirds of the time. */
const PAUSE_RATIO = 2;
/** Minimum number of milliseconds between two rounds of deleting old rows. */
const PAUSE_MS = 1000;
/** Minimum pause between two rounds, as a multiple of the time of the last search for old rows. Limits idle rounds to 5 % of a core. */
const SEARCH_PAUSE_RATIO = 20;
/** Number of delete transactions between two checkpoints. They add about 20 MiB to SQLite's write-ahead log. */
const STEPS_PER_CHECKPOINT = 20;

const { dataDir, rows, days, writeLock } = workerData as RetentionStart;
const lock = new WriteLock(writeLock);
// Checkpoints run between delete transactions. Automatic ones are off, because they would run within a commit, under the write lock.
const options = { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: 0 };
const retention = new TaskRetention(new Database(join(dataDir, 'tasks.db'), options));

for (;;) {
  let steps = 0;
  let stepStartedAt = performance.now();
  for (const deleted of retentionRound(retention, { rows, days }, Date.now(), (work) => lock.run(work))) {
    await setTimeout((performance.now() - stepStartedAt) * PAUSE_RATIO);
    if (deleted > 0 && ++steps % STEPS_PER_CHECKPOINT === 0) retention.checkpoint();
    stepStartedAt = performance.now();
  }
  const searchMs = performance.now() - stepStartedAt;
  if (steps > 0) retention.checkpoint();
  await setTimeout(Math.max(PAUSE_MS, searchMs * SEARCH_PAUSE_RATIO));
}
