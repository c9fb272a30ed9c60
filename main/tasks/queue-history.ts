import type { QueueCounts } from '../../db/task-store.ts';

const MAX_SECONDS = 900;

/** Numbers of events that `GET /queue/history` reports. `accepted` includes redriven dead letters. */
const EVENTS = ['accepted', 'completed', 'failed', 'retried'] as const;

/** Numbers of events in one second, and the number of waiting, retrying and running messages at its end (`depth`). */
type Second = Record<(typeof EVENTS)[number] | 'depth', number>;

/** Numbers of events in each of the last 900 complete seconds, as the differences of the queue's totals. */
export class QueueHistory {
  /** Oldest second first. */
  readonly #seconds: Second[] = [];
  #newestSecond: number;
  #totals: Second | undefined;

  /** @param now milliseconds since the epoch */
  constructor(now: number) {
    this.#newestSecond = Math.floor(now / 1000) - 1;
  }

  /**
   * Appends the seconds that ended since the last call. All events since then count for the first of these seconds. The
   * first call sets what later totals are compared with.
   */
  advance(counts: QueueCounts, now: number): void {
    const totals = totalsOf(counts);
    this.#totals ??= totals;
    const before = this.#totals;
    const newest = Math.floor(now / 1000) - 1;
    const passed = Math.min(newest - this.#newestSecond, MAX_SECONDS);
    if (passed <= 0) return;
    this.#newestSecond = newest;
    this.#totals = totals;
    // A total that has decreased was reset.
    const since = (name: keyof Second) => Math.max(0, totals[name] - before[name]);
    const { depth } = totals;
    this.#seconds.push({ ...ofEvents(since), depth });
    const idle = { ...ofEvents(() => 0), depth };
    for (let second = 1; second < passed; second++) this.#seconds.push(idle);
    this.#seconds.splice(0, this.#seconds.length - MAX_SECONDS);
  }

  /**
   * Returns the response to `GET /queue/history`: an array of each number, oldest second first. `end` is the newest
   * complete second. Seconds up to `since` (Unix seconds) are left out.
   */
  read(since = 0) {
    const seconds = Math.max(0, Math.min(this.#seconds.length, this.#newestSecond - since));
    const last = this.#seconds.slice(this.#seconds.length - seconds);
    const column = (name: keyof Second) => last.map((second) => second[name]);
    return { end: this.#newestSecond, seconds, ...ofEvents(column), depth: column('depth') };
  }
}

function ofEvents<Value>(get: (name: (typeof EVENTS)[number]) => Value) {
  return Object.fromEntries(EVENTS.map((name) => [name, get(name)])) as Record<(typeof EVENTS)[number], Value>;
}

function totalsOf({ accepted, completed, failed, retried, dead, dropped, ...counts }: QueueCounts): Second {
  const redriven = failed - dead - dropped;
  const depth = counts.waiting + counts.retrying + counts.inFlight;
  return { accepted: accepted + redriven, completed, failed, retried, depth };
}
