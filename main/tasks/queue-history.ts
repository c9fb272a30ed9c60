import type { QueueCounts } from '../../db/task-store.ts';

const MAX_SECONDS = 900;

/** Numbers of events that `GET /queue/history` reports. `accepted` includes redriven dead letters. */
const EVENTS = ['accepted', 'completed', 'failed', 'retried'] as const;
const COLUMNS = [...EVENTS, 'depth'] as const;

type ByColumn<Value> = Record<(typeof COLUMNS)[number], Value>;

/** Numbers of events in one second, and the number of waiting, retrying and running messages at its end (`depth`). */
type Second = ByColumn<number>;

/**
 * Returns the numbers of events in each of the last 900 complete seconds, as the differences of the queue's totals.
 *
 * @param start milliseconds since the epoch
 */
export function queueHistory(start: number) {
  /** Oldest second first. */
  const seconds: Second[] = [];
  let newestSecond = Math.floor(start / 1000) - 1;
  let lastTotals: Second | undefined;
  return {
    /**
     * Appends the seconds that ended since the last call. All events since then count for the first of these seconds. The
     * first call sets what later totals are compared with.
     */
    advance(counts: QueueCounts, now: number): void {
      const totals = totalsOf(counts);
      lastTotals ??= totals;
      const newest = Math.floor(now / 1000) - 1;
      const passed = Math.min(newest - newestSecond, MAX_SECONDS);
      if (passed <= 0) return;
      const [first, idle] = [{ ...totals }, { ...totals }];
      for (const event of EVENTS) {
        // A total that has decreased was reset.
        first[event] = Math.max(0, totals[event] - lastTotals[event]);
        idle[event] = 0;
      }
      newestSecond = newest;
      lastTotals = totals;
      seconds.push(first, ...Array<Second>(passed - 1).fill(idle));
      seconds.splice(0, seconds.length - MAX_SECONDS);
    },
    /**
     * Returns the response to `GET /queue/history`: an array of each number, oldest second first. `end` is the newest
     * complete second. Seconds up to `since` (Unix seconds) are left out.
     */
    read(since = 0) {
      const count = Math.max(0, Math.min(seconds.length, newestSecond - since));
      const last = seconds.slice(seconds.length - count);
      const columns = COLUMNS.map((name) => [name, last.map((second) => second[name])]);
      return { end: newestSecond, seconds: count, ...(Object.fromEntries(columns) as ByColumn<number[]>) };
    },
  };
}

function totalsOf({ accepted, completed, failed, retried, dead, dropped, ...counts }: QueueCounts): Second {
  const redriven = failed - dead - dropped;
  const depth = counts.waiting + counts.limited + counts.retrying + counts.inFlight;
  return { accepted: accepted + redriven, completed, failed, retried, depth };
}
