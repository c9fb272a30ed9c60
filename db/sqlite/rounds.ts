import type { Database } from './database.ts';
import type { Limited } from './limits.ts';

const WAITING = "FROM messages WHERE state = 'waiting' AND priority = ?1";
const OF_KEY = `SELECT (SELECT min(round) ${WAITING}) AS first, (SELECT max(round) ${WAITING} AND limit_key = ?2) AS last`;
const LIMITED_BY_ACTION = 'FROM messages WHERE place = 1 AND action = ? AND priority = ?';
const FIRST_LIMITED = `SELECT min(round) AS first ${LIMITED_BY_ACTION}`;
const LAST_LIMITED_OF_KEY = `SELECT max(round) AS last ${LIMITED_BY_ACTION} AND limit_key IS ?`;
const LOADED = `SELECT priority, min(round) AS first, max(round) FILTER (WHERE limit_key IS NULL) AS last
  FROM messages WHERE state = 'waiting' GROUP BY priority`;

/** A message that is going to wait. */
export interface Due extends Limited {
  arrival: number;
  priority: number;
}

/**
 * Rounds of waiting messages, and of messages limited by their action. Messages of one priority are taken by round,
 * and each next message of a key has a later round, so keys alternate. A key of which nothing waits starts at the present
 * round, and not behind the crowd of another key. All messages without a key count as one key. Lost if the process dies, and
 * then derived from the messages.
 */
export class Rounds {
  readonly #database: Database;
  /** Round of the newest message taken in its round, by priority. */
  readonly #present = new Map<number, number>();
  /** Last round of the messages without a key, by priority. */
  readonly #last = new Map<number, number>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Reads the table once, at the start. */
  load(): void {
    this.reset();
    const rows = this.#database.all<{ priority: number; first: number; last: number | null }>(LOADED);
    for (const { priority, first, last } of rows) {
      this.#present.set(priority, first);
      if (last !== null) this.#last.set(priority, last);
    }
  }

  /** Returns the round of the next message with this priority and key, or of the first of `count` without a key. */
  next(priority: number, key: string | undefined, count = 1): number {
    const present = this.#present.get(priority) ?? 0;
    if (key === undefined) {
      const round = Math.max((this.#last.get(priority) ?? -1) + 1, present);
      this.#last.set(priority, round + count - 1);
      return round;
    }
    // A key whose last message was taken must not pass waiting messages, so the present round is that of the next message.
    const { first, last } = this.#database.get(OF_KEY, priority, key) as { first: number | null; last: number | null };
    return Math.max((last ?? -1) + 1, first ?? present);
  }

  /** Returns the round of a message that is limited by its action. It leaves that list with another round. */
  nextLimited({ action, limit_key, priority }: Due, isFirst = false): number {
    const first = this.#database.get<{ first: number | null }>(FIRST_LIMITED, action, priority)?.first ?? 0;
    if (isFirst) return first;
    const last = this.#database.get<{ last: number | null }>(LAST_LIMITED_OF_KEY, action, priority, limit_key)?.last;
    return Math.max((last ?? -1) + 1, first);
  }

  taken(priority: number, round: number): void {
    this.#present.set(priority, Math.max(round, this.#present.get(priority) ?? 0));
  }

  /** Nothing waits any more, so that cancelled messages no longer count. */
  reset(): void {
    this.#last.clear();
  }
}
