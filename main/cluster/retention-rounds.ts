import { setTimeout } from 'node:timers/promises';
import { PostgresDatabase, reasonOf } from '../../db/postgres/database.ts';
import { retentionRound } from '../../db/postgres/retention.ts';
import type { RetentionLimits } from '../../db/retention-limits.ts';
import type { Log } from '../log.ts';

/** Ratio of a pause to the duration of the preceding deletion step. Leaves two thirds of the time to other queries. */
const STEP_PAUSE_RATIO = 2;
const PAUSE_MS = 1000;
/** Minimum ratio of the pause after a round to the round's working time. Limits deletions to 5 % of the time. */
const ROUND_PAUSE_RATIO = 20;
const FAILED_PAUSE_MS = 15_000;
/** Statement timeout, long enough for a query that scans the index of all kept rows. */
const TIME_LIMIT_MS = 60_000;
const LOCK_LIMIT_MS = 2000;

/** Deletes old rows from PostgreSQL in rounds. Only one node runs a round at a time. */
export function startRetentionRounds(databaseUrl: string, limits: RetentionLimits, log: Log) {
  const timeLimits = { timeLimitMs: TIME_LIMIT_MS, lockLimitMs: LOCK_LIMIT_MS };
  const database = new PostgresDatabase(databaseUrl, { connections: 1, ...timeLimits });
  const stopped = new AbortController();
  const { signal } = stopped;
  const pause = (ms: number) => setTimeout(ms, undefined, { signal }).catch(() => {});

  /** Returns the pause before the next round in milliseconds. */
  const round = async (): Promise<number> => {
    const startedAt = performance.now();
    let paused = 0;
    let stepStartedAt = startedAt;
    try {
      await retentionRound(database, limits, Date.now(), async () => {
        const pauseMs = (performance.now() - stepStartedAt) * STEP_PAUSE_RATIO;
        await pause(pauseMs);
        paused += pauseMs;
        stepStartedAt = performance.now();
        return !signal.aborted;
      });
      return Math.max(PAUSE_MS, (performance.now() - startedAt - paused) * ROUND_PAUSE_RATIO);
    } catch (error) {
      if (signal.aborted) return 0;
      log.error({ reason: reasonOf(error), delayMs: FAILED_PAUSE_MS }, 'old rows cannot be deleted: retrying');
      return FAILED_PAUSE_MS;
    }
  };
  const run = async () => {
    while (!signal.aborted) await pause(await round());
  };
  const ended = run();
  return {
    async stop() {
      stopped.abort();
      await database.close();
      await ended;
    },
  };
}
