import { setTimeout } from 'node:timers/promises';
import { PostgresDatabase, reasonOf } from '../../db/postgres/database.ts';
import { retentionRound } from '../../db/postgres/retention.ts';
import type { RetentionLimits } from '../../db/retention-limits.ts';
import type { Log } from '../log.ts';

/**
 * Pause after each deletion step, as a multiple of the step's duration. Leaves two thirds of the time to other queries.
 */
const STEP_PAUSE_RATIO = 2;
/** Minimum pause between deletion rounds in milliseconds. */
const PAUSE_MS = 1000;
/** Pause after a round, as a multiple of the round's duration excluding pauses. Limits deletions to 5 % of the time. */
const ROUND_PAUSE_RATIO = 20;
const FAILED_PAUSE_MS = 15_000;
/** Statement timeout. Long, because one query scans the index of all kept rows. */
const TIME_LIMIT_MS = 60_000;
/** Longest wait for a row lock. */
const LOCK_LIMIT_MS = 2000;

/**
 * Deletes old rows from PostgreSQL in rounds, over a separate connection. Only one node runs a round at a time.
 *
 * @returns `stop`, which cancels the current round
 */
export function startRetentionRounds(databaseUrl: string, limits: RetentionLimits, log: Log) {
  const timeLimits = { timeLimitMs: TIME_LIMIT_MS, lockLimitMs: LOCK_LIMIT_MS };
  const database = new PostgresDatabase(databaseUrl, { connections: 1, ...timeLimits });
  const stopped = new AbortController();
  const { signal } = stopped;
  const pause = (ms: number) => setTimeout(ms, undefined, { signal }).catch(() => {});

  /** Runs a round of deletions. @returns the pause before the next round, in milliseconds */
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
