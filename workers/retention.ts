/** The thread that deletes the rows of tasks beyond the limits, in short steps with pauses, as long as it lives. */
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/database.ts';
import { TaskRetention } from '../db/task-retention.ts';
import type { RetentionStart } from './messages.ts';
import { retentionRound } from './retention-round.ts';
import { WriteLock } from './write-lock.ts';

const BUSY_TIMEOUT_MS = 2000;
/** Between two steps, by the time that a step took: two thirds of the time belong to those who store rows. */
const PAUSE_BY_STEP = 2;
/** Between two rounds, and by the time that finding out took: it costs a twentieth of a core at most. */
const PAUSE_MS = 1000;
const PAUSE_BY_SEARCH = 20;
/** After so many steps the log has some 20 MiB of theirs. */
const STEPS_A_CHECKPOINT = 20;

const { dataDir, rows, days, writeLock } = workerData as RetentionStart;
const lock = new WriteLock(writeLock);
// A commit that moves the log into the file would hold up the others: that is done between the turns.
const options = { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: 0 };
const retention = new TaskRetention(new Database(join(dataDir, 'tasks.db'), options));

for (;;) {
  let steps = 0;
  let begun = performance.now();
  for (const deleted of retentionRound(retention, { rows, days }, Date.now(), (work) => lock.run(work))) {
    await setTimeout((performance.now() - begun) * PAUSE_BY_STEP);
    if (deleted > 0 && ++steps % STEPS_A_CHECKPOINT === 0) retention.checkpoint();
    begun = performance.now();
  }
  const searchMs = performance.now() - begun;
  if (steps > 0) retention.checkpoint();
  await setTimeout(Math.max(PAUSE_MS, searchMs * PAUSE_BY_SEARCH));
}
