/** The retention thread: deletes task rows beyond the limits, in short steps with pauses, until it is terminated. */
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/sqlite/database.ts';
import { TaskRetention } from '../db/sqlite/retention.ts';
import type { RetentionStart } from './messages.ts';
import { retentionRound } from './retention-round.ts';
import { WriteLock } from './write-lock.ts';

const BUSY_TIMEOUT_MS = 2000;
/** Pause after a step, as a multiple of its duration. Leaves two thirds of the time to threads that store rows. */
const PAUSE_RATIO = 2;
/** Shortest pause between two rounds. */
const PAUSE_MS = 1000;
/** The same as a multiple of the last search's duration, which bounds idle rounds to a twentieth of a core. */
const SEARCH_PAUSE_RATIO = 20;
/** Steps between two checkpoints. They add about 20 MiB to the log. */
const STEPS_PER_CHECKPOINT = 20;

const { dataDir, rows, days, writeLock } = workerData as RetentionStart;
const lock = new WriteLock(writeLock);
// Automatic checkpoints are off, because a commit would run them while it holds the write lock. They run between steps.
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
