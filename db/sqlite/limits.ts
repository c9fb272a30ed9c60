import {
  type ActionLimits,
  type Limit,
  type SetLimits,
  STAGED_SLICE,
  TAKES_PER_LONGEST,
  type UsedLimit,
} from '../task-store.ts';
import type { Database } from './database.ts';

/**
 * Places that a message of a limited action holds: none, so that it is limited by its key; its key's place, so
 * that it is limited by its action; or all places, so that it waits or runs. Null if its action has no limits.
 */
export const PLACES = { none: 0, key: 1, all: 2 } as const;
export type Place = (typeof PLACES)[keyof typeof PLACES];

export interface Limited {
  action: string | null;
  limit_key: string | null;
}

export interface Held extends Limited {
  place: Place | null;
  started_at: number | null;
}

/** Name of the pool of the action itself. No limit key is empty. */
const OWN = '';

const STORED = 'SELECT action, source, definition FROM limits ORDER BY action';
const USE = 'SELECT starts, promoted FROM limit_uses WHERE action = ? AND limit_key = ?';
const OCCUPY = `INSERT INTO limit_uses (action, limit_key, used, starts, promoted) VALUES (?, ?, 1, ?, ?)
  ON CONFLICT DO UPDATE SET used = used + 1, starts = starts + excluded.starts, promoted = promoted + excluded.promoted
  WHERE used < ? AND starts < ?`;
const VACATE = 'UPDATE limit_uses SET used = used - ?, starts = starts - ? WHERE action = ? AND limit_key = ?';
const DELETE_UNUSED = `DELETE FROM limit_uses
  WHERE action = ? AND limit_key IN ('${OWN}', ?) AND used = 0 AND starts = 0`;
const NO_LIMIT = Number.MAX_SAFE_INTEGER;
const ADD_START = 'INSERT INTO limit_starts (action, limit_key, ends_at) VALUES (?, ?, ?)';
const NEXT_START_END = 'SELECT min(ends_at) AS endsAt FROM limit_starts';
const START_END = 'SELECT min(ends_at) AS endsAt FROM limit_starts WHERE action = ? AND limit_key = ?';
const ENDED_STARTS = `DELETE FROM limit_starts WHERE rowid IN
  (SELECT rowid FROM limit_starts WHERE ends_at <= ? ORDER BY ends_at LIMIT ${STAGED_SLICE}) RETURNING action, limit_key`;

const PERIOD = `(SELECT definition ->> iif(limit_key = '${OWN}', '$.rate.ms', '$.perKey.rate.ms')
  FROM limits WHERE limits.action = limit_starts.action)`;
/** Corrects starts that lie in the future because the clock was set back. */
export const CORRECT_STARTS = `UPDATE limit_starts SET ends_at = ?1 + ${PERIOD} WHERE ends_at > ?1 + ${PERIOD}`;

/**
 * Places of messages in the limits of their actions. An action's limit, and that of each of its keys, is a pool: a message
 * holds a place in it while it waits or runs, and one of its starts from then until the time of the rate has passed since
 * its handler started. So no more than that can run or start, whatever happens. Must run in the transaction that changes
 * the message.
 */
export class Limits {
  readonly #database: Database;
  #limits = new Map<string, SetLimits>();

  constructor(database: Database) {
    this.#database = database;
  }

  load(): void {
    const rows = this.#database.all<Record<'action' | 'definition', string> & Pick<SetLimits, 'source'>>(STORED);
    const limits = rows.map(({ definition, ...row }) => ({ ...row, limits: JSON.parse(definition) }));
    this.#limits = new Map(limits.map((row) => [row.action, row]));
  }

  list(): SetLimits[] {
    return [...this.#limits.values()];
  }

  of(action: string | null | undefined): ActionLimits | undefined {
    return this.#limits.size === 0 ? undefined : this.#limits.get(action ?? '')?.limits;
  }

  /** Writes the limits of an action, which hold after `load` and `Messages.place`. Recorded starts count for the new period. */
  store({ action, limits, source }: Omit<SetLimits, 'limits'> & { limits: ActionLimits | undefined }): void {
    this.#database.run('DELETE FROM limits WHERE action = ?', action);
    const former = this.of(action);
    this.#shiftStarts(action, "= ''", former?.rate, limits?.rate);
    this.#shiftStarts(action, "<> ''", former?.perKey?.rate, limits?.perKey?.rate);
    if (limits === undefined) return;
    const insert = 'INSERT INTO limits (action, source, definition) VALUES (?, ?, ?)';
    this.#database.run(insert, action, source, JSON.stringify(limits));
  }

  #shiftStarts(action: string, keys: string, former: Limit['rate'], rate: Limit['rate']): void {
    const where = `WHERE action = ? AND limit_key ${keys}`;
    if (rate === undefined) this.#database.run(`DELETE FROM limit_starts ${where}`, action);
    else if (former !== undefined) {
      const shift = rate.ms - former.ms;
      this.#database.run(`UPDATE limit_starts SET ends_at = ends_at + ? ${where}`, shift, action);
    }
  }

  /**
   * Takes as many places as are free. Returns undefined if the action has no limits.
   *
   * @param isPromoted whether the message was limited by its key
   */
  enter({ action, limit_key }: Limited, isPromoted = false): Place | undefined {
    const limits = this.of(action);
    if (limits === undefined) return undefined;
    if (!this.#occupy(action, limit_key, limits.perKey, isPromoted)) return PLACES.none;
    return this.#occupy(action, OWN, limits) ? PLACES.all : PLACES.key;
  }

  enterKey({ action, limit_key }: Limited): Place {
    return this.#occupy(action, limit_key, this.of(action)?.perKey) ? PLACES.key : PLACES.none;
  }

  /** Takes the action's place for a message that holds its key's. Returns whether one was free. */
  enterAction({ action }: Limited): boolean {
    return this.#occupy(action, OWN, this.of(action), true);
  }

  /** Whether the next place goes to the longest limited message, so that none waits forever. */
  isLongestNext(action: string, limit_key = OWN): boolean {
    return (this.#use(action, limit_key).promoted + 1) % TAKES_PER_LONGEST === 0;
  }

  /** Deletes the pools of an action and of one of its keys of which nothing is used. Comes after the next messages entered. */
  deleteUnused({ action, limit_key }: Limited): void {
    this.#database.runUncounted(DELETE_UNUSED, action, limit_key);
  }

  /** Gives all places to a message that runs already, even if none is free. Its start is recorded for `former` rates. */
  force({ action, limit_key }: Limited, startedAt: number | null, former: ActionLimits | undefined): void {
    const limits = this.of(action);
    for (const [key, limit] of poolsOf(limits, limit_key)) {
      const isRecorded = startedAt !== null && (key === OWN ? former : former?.perKey)?.rate !== undefined;
      if (limit.rate !== undefined && startedAt !== null && !isRecorded) {
        this.#database.runUncounted(ADD_START, action, key, startedAt + limit.rate.ms);
      }
      const starts = Number(limit.rate !== undefined && !isRecorded);
      this.#database.run(OCCUPY, action, key, starts, 0, NO_LIMIT, NO_LIMIT);
    }
  }

  /**
   * Releases the places of a message.
   *
   * @param start when its handler started, or `none`. Ignored if a start was recorded
   */
  leave({ action, limit_key, place, started_at }: Held, start: number | 'none'): void {
    if (place === null || place === PLACES.none) return;
    for (const [key, { rate }] of poolsOf(this.of(action), limit_key)) {
      if (key === OWN && place !== PLACES.all) continue;
      const isRecorded = rate === undefined || started_at !== null;
      if (!isRecorded && start !== 'none') this.#database.runUncounted(ADD_START, action, key, start + rate.ms);
      this.#database.runUncounted(VACATE, 1, Number(!isRecorded && start === 'none'), action, key);
    }
  }

  started({ action, limit_key }: Limited, start: number): void {
    for (const [key, { rate }] of poolsOf(this.of(action), limit_key)) {
      if (rate !== undefined) this.#database.runUncounted(ADD_START, action, key, start + rate.ms);
    }
  }

  /** Gives back starts whose time has passed, up to a slice. Returns the pools. */
  endStarts(now: number): { action: string; limit_key: string }[] {
    const ended = this.#database.all<{ action: string; limit_key: string }>(ENDED_STARTS, now);
    for (const { action, limit_key } of ended) this.#database.runUncounted(VACATE, 0, 1, action, limit_key);
    return ended;
  }

  /** Returns when the time of a start has passed, or infinity. */
  nextStartEnd(): number {
    if (this.#limits.size === 0) return Number.POSITIVE_INFINITY;
    return this.#database.get<{ endsAt: number | null }>(NEXT_START_END)?.endsAt ?? Number.POSITIVE_INFINITY;
  }

  /** Counts the places of an action from scratch: only its recorded starts hold one. */
  clear(action: string): void {
    this.#database.run('DELETE FROM limit_uses WHERE action = ?', action);
    const recorded = 'SELECT action, limit_key, 0, count(*) FROM limit_starts WHERE action = ? GROUP BY limit_key';
    this.#database.run(`INSERT INTO limit_uses (action, limit_key, used, starts) ${recorded}`, action);
  }

  limitsAction(action: string | null): boolean {
    return !isUnlimited(this.of(action) ?? {});
  }

  limitsKeys(action: string | null): boolean {
    return this.of(action)?.perKey !== undefined;
  }

  /** Returns the limit of an action or of one of its keys, and when its next start is free if its rate is used up. */
  find(action: string, limit_key: string | undefined): Omit<UsedLimit, 'running'> {
    const limits = this.of(action);
    const { concurrency, rate } = (limit_key === undefined ? limits : limits?.perKey) ?? {};
    const key = limit_key ?? OWN;
    const isUsedUp = rate !== undefined && this.#use(action, key).starts >= rate.count;
    const next = isUsedUp ? this.#database.get<{ endsAt: number | null }>(START_END, action, key) : undefined;
    return { concurrency, rate, nextStartAt: next?.endsAt ?? undefined };
  }

  #use(action: string | null, key: string): Use {
    return this.#database.get<Use>(USE, action, key) ?? { starts: 0, promoted: 0 };
  }

  /** Takes a place if there is one or none is needed. */
  #occupy(action: string | null, key: string | null, limit: Limit | undefined, isPromoted = false): boolean {
    if (key === null || limit === undefined || isUnlimited(limit)) return true;
    const { concurrency = NO_LIMIT, rate } = limit;
    const counts = [Number(rate !== undefined), Number(isPromoted)] as const;
    return this.#database.run(OCCUPY, action, key, ...counts, concurrency, rate?.count ?? NO_LIMIT) > 0;
  }
}

interface Use {
  starts: number;
  promoted: number;
}

function isUnlimited({ concurrency, rate }: Limit): boolean {
  return concurrency === undefined && rate === undefined;
}

/** Returns the pools in which a message needs a place. */
function poolsOf(limits: ActionLimits | undefined, key: string | null): [key: string, limit: Limit][] {
  const pools: [string, Limit | undefined][] = [[OWN, limits]];
  if (key !== null) pools.push([key, limits?.perKey]);
  return pools.flatMap(([name, limit]) => (limit === undefined || isUnlimited(limit) ? [] : [[name, limit]]));
}
