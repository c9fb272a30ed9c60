import type { LiveCounts } from './queue.ts';

const MAX_SECONDS = 900;
const MAX_MINUTES = 24 * 60;
const MAX_STARTS = 100;

/** Numbers of events that `GET /queue/history` reports. `accepted` includes redriven dead letters. */
const EVENTS = ['accepted', 'completed', 'failed', 'retried', 'refused'] as const;
const COLUMNS = [...EVENTS, 'depth'] as const;

type ByColumn<Value> = Record<(typeof COLUMNS)[number], Value>;

/** Numbers of events in a period, and the number of waiting, limited, retrying and running messages at its end (`depth`). */
type Period = ByColumn<number>;

const NO_EVENTS: Period = { accepted: 0, completed: 0, failed: 0, retried: 0, refused: 0, depth: 0 };

/** Unit of the history: consecutive periods, oldest first. */
interface Series {
  readonly seconds: number;
  readonly length: number;
  periods: Period[];
  /** Number of the newest period since the epoch. */
  newest: number;
}

/** Text that {@link queueHistory} saves. */
interface Saved {
  series: { newest: number; columns: ByColumn<number[]> }[];
  starts: number[];
}

/**
 * Returns the numbers of events in each of the last 900 complete seconds and of the last 24 hours' minutes, as the
 * differences of the queue's totals.
 *
 * @param start milliseconds since the epoch
 * @param saved what `save` returned before the start
 */
export function queueHistory(start: number, saved?: string) {
  const newestSecond = Math.floor(start / 1000) - 1;
  const seconds: Series = { seconds: 1, length: MAX_SECONDS, periods: [], newest: newestSecond };
  const minutes: Series = { seconds: 60, length: MAX_MINUTES, periods: [], newest: Math.floor(newestSecond / 60) };
  const starts = [...restore([seconds, minutes], saved), newestSecond + 1].slice(-MAX_STARTS);
  let lastTotals: Period | undefined;

  const add = (second: number, events: Period) => {
    extend(seconds, second, events.depth);
    extend(minutes, Math.floor(second / 60), events.depth);
    for (const { periods } of [seconds, minutes]) {
      const period = periods.at(-1) as Period;
      for (const event of EVENTS) period[event] += events[event];
      period.depth = events.depth;
    }
  };

  return {
    /**
     * Appends the seconds that ended since the last call. All events since then count for the first of these seconds. The
     * first call sets what later totals are compared with.
     */
    advance(counts: LiveCounts, now: number): void {
      const totals = totalsOf(counts);
      lastTotals ??= totals;
      const newest = Math.floor(now / 1000) - 1;
      const first = Math.max(seconds.newest, newest - MAX_SECONDS) + 1;
      if (first > newest) return;
      const events = { ...totals };
      // A total that has decreased was reset.
      for (const event of EVENTS) events[event] = Math.max(0, totals[event] - lastTotals[event]);
      lastTotals = totals;
      add(first, events);
      if (newest > first) add(newest, { ...NO_EVENTS, depth: totals.depth });
    },
    /** Returns the number of events of the last minute. */
    lastMinute: (event: (typeof EVENTS)[number]) =>
      seconds.periods.slice(-60).reduce((sum, second) => sum + second[event], 0),
    /**
     * Returns the response to `GET /queue/history`: an array of each number, oldest period first. `end` is the newest
     * complete period, in Unix seconds. Periods up to `since` are left out.
     */
    read(since = 0, step: 1 | 60 = 1) {
      const series = step === 1 ? seconds : minutes;
      // The present minute is not complete.
      const isPartial = step === 60 && seconds.newest < minutes.newest * 60 + 59;
      const all = isPartial ? series.periods.slice(0, -1) : series.periods;
      const newest = series.newest - Number(isPartial);
      const count = Math.max(0, Math.min(all.length, newest - Math.floor(since / step)));
      const columns = columnsOf(all.slice(all.length - count));
      const length: { seconds?: number; minutes?: number } = step === 1 ? { seconds: count } : { minutes: count };
      return { end: newest * step, ...length, ...columns, starts };
    },
    save(): string {
      const series = [seconds, minutes].map(({ newest, periods }) => ({ newest, columns: columnsOf(periods) }));
      return JSON.stringify({ series, starts } satisfies Saved);
    },
  };
}

/** Appends periods without events up to one. */
function extend(series: Series, period: number, depth: number): void {
  const missing = series.periods.length === 0 ? 1 : Math.min(period - series.newest, series.length);
  if (missing === 0) return;
  const none = Array.from({ length: missing }, () => ({ ...NO_EVENTS, depth }));
  series.periods = [...series.periods, ...none].slice(-series.length);
  series.newest = period;
}

/** Continues saved series. Returns the starts of the processes. A text that is damaged or from the future is ignored. */
function restore(all: readonly Series[], saved: string | undefined): number[] {
  try {
    const { series, starts } = JSON.parse(saved ?? '') as Saved;
    if (series.some(({ newest }, index) => newest > (all[index]?.newest ?? 0))) return [];
    for (const [index, each] of all.entries()) {
      const { newest, columns } = series[index] as Saved['series'][number];
      const periodOf = (_: unknown, at: number) =>
        Object.fromEntries(COLUMNS.map((name) => [name, columns[name][at] ?? 0])) as Period;
      Object.assign(each, { newest, periods: Array.from(columns.depth, periodOf) });
    }
    return starts;
  } catch {
    return [];
  }
}

function columnsOf(periods: readonly Period[]): ByColumn<number[]> {
  const columns = COLUMNS.map((name) => [name, periods.map((period) => period[name])]);
  return Object.fromEntries(columns);
}

function totalsOf({ accepted, completed, failed, retried, refused, dead, dropped, ...counts }: LiveCounts): Period {
  const redriven = failed - dead - dropped;
  const depth = counts.waiting + counts.limited + counts.retrying + counts.inFlight;
  return { accepted: accepted + redriven, completed, failed, retried, refused, depth };
}
