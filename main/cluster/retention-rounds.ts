import { setTimeout } from 'node:timers/promises';
import { PostgresDatabase, reasonOf } from '../../db/postgres/database.ts';
import { retentionRound } from '../../db/postgres/retention.ts';
import type { RetentionLimits } from '../../db/retention-limits.ts';
import type { Log } from '../log.ts';

/** Between two steps, by the time that a step took: two thirds of the time belong to those who store rows. */
const PAUSE_BY_STEP = 2;
/** Between two rounds, and by the time that a round took: looking costs a twentieth of the time at most. */
const PAUSE_MS = 1000;
const PAUSE_BY_ROUND = 20;
/** After a round that failed. Nothing is urgent about it. */
const FAILED_PAUSE_MS = 15_000;
/** Finding the last row that is kept reads an index along all that are. */
const TIME_LIMIT_MS = 60_000;
/** Of one who waits for the end. */
const LOCK_LIMIT_MS = 2000;

/** Deletes old rows from PostgreSQL in rounds, on a connection of its own; of all nodes one at a time is at it. */
export class RetentionRounds {
  readonly #database: PostgresDatabase;
  readonly #limits: RetentionLimits;
  readonly #log: Log;
  readonly #stopped = new AbortController();
  readonly #ended: Promise<void>;

  /** Starts it. */
  constructor(databaseUrl: string, limits: RetentionLimits, log: Log) {
    const timeLimits = { timeLimitMs: TIME_LIMIT_MS, lockLimitMs: LOCK_LIMIT_MS };
    this.#database = new PostgresDatabase(databaseUrl, { connections: 1, ...timeLimits });
    this.#limits = limits;
    this.#log = log;
    this.#ended = this.#run();
  }

  /** Ends it, between two steps or in the midst of one. Calling it again waits for the same. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#database.close();
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) await this.#pause(await this.#round());
  }

  /** @returns how long to wait for the next */
  async #round(): Promise<number> {
    const begun = performance.now();
    let paused = 0;
    let stepBegun = begun;
    try {
      await retentionRound(this.#database, this.#limits, Date.now(), async () => {
        const pauseMs = (performance.now() - stepBegun) * PAUSE_BY_STEP;
        await this.#pause(pauseMs);
        paused += pauseMs;
        stepBegun = performance.now();
        return !this.#stopped.signal.aborted;
      });
      return Math.max(PAUSE_MS, (performance.now() - begun - paused) * PAUSE_BY_ROUND);
    } catch (error) {
      if (this.#stopped.signal.aborted) return 0;
      this.#log.error({ reason: reasonOf(error), delayMs: FAILED_PAUSE_MS }, 'old rows cannot be deleted: tried again');
      return FAILED_PAUSE_MS;
    }
  }

  async #pause(ms: number): Promise<void> {
    await setTimeout(ms, undefined, { signal: this.#stopped.signal }).catch(() => {});
  }
}
