import { setTimeout } from 'node:timers/promises';
import { PostgresDatabase, reasonOf } from '../../db/postgres/database.ts';
import { retentionRound } from '../../db/postgres/retention.ts';
import type { RetentionLimits } from '../../db/retention-limits.ts';
import type { Log } from '../log.ts';

/** Pause after each deletion step, as a multiple of its duration. Leaves two thirds of the time to other queries. */
const STEP_PAUSE_RATIO = 2;
/** Shortest pause between two rounds of deleting old rows. */
const PAUSE_MS = 1000;
/** Pause after a round, as a multiple of its duration without pauses. Limits the rounds to 5 % of the time. */
const ROUND_PAUSE_RATIO = 20;
const FAILED_PAUSE_MS = 15_000;
/** Timeout of a statement. Long, because finding the last row to keep scans the index of all kept rows. */
const TIME_LIMIT_MS = 60_000;
/** Longest wait for a row lock. */
const LOCK_LIMIT_MS = 2000;

/** Deletes old rows from PostgreSQL in rounds, over its own connection. Only one node at a time runs a round. */
export class RetentionRounds {
  readonly #database: PostgresDatabase;
  readonly #limits: RetentionLimits;
  readonly #log: Log;
  readonly #stopped = new AbortController();
  readonly #ended: Promise<void>;

  /** Starts the first round. */
  constructor(databaseUrl: string, limits: RetentionLimits, log: Log) {
    const timeLimits = { timeLimitMs: TIME_LIMIT_MS, lockLimitMs: LOCK_LIMIT_MS };
    this.#database = new PostgresDatabase(databaseUrl, { connections: 1, ...timeLimits });
    this.#limits = limits;
    this.#log = log;
    this.#ended = this.#run();
  }

  /** Stops the rounds, cancels a step in progress, and waits for the end. May be called again. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#database.close();
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) await this.#pause(await this.#round());
  }

  /** Runs a round of deletions. @returns the pause before the next round, in milliseconds */
  async #round(): Promise<number> {
    const startedAt = performance.now();
    let paused = 0;
    let stepStartedAt = startedAt;
    try {
      await retentionRound(this.#database, this.#limits, Date.now(), async () => {
        const pauseMs = (performance.now() - stepStartedAt) * STEP_PAUSE_RATIO;
        await this.#pause(pauseMs);
        paused += pauseMs;
        stepStartedAt = performance.now();
        return !this.#stopped.signal.aborted;
      });
      return Math.max(PAUSE_MS, (performance.now() - startedAt - paused) * ROUND_PAUSE_RATIO);
    } catch (error) {
      if (this.#stopped.signal.aborted) return 0;
      this.#log.error({ reason: reasonOf(error), delayMs: FAILED_PAUSE_MS }, 'old rows cannot be deleted: retrying');
      return FAILED_PAUSE_MS;
    }
  }

  async #pause(ms: number): Promise<void> {
    await setTimeout(ms, undefined, { signal: this.#stopped.signal }).catch(() => {});
  }
}
