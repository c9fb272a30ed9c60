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

/** Unit of the history: the columns of consecutive periods, oldest first. */
interface Series {
  readonly length: number;
  columns: ByColumn<number[]>;
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
  const seconds: Series = { length: MAX_SECONDS, columns: byColumn(() => []), newest: newestSecond };
  const newestMinute = Math.floor(newestSecond / 60);
  const minutes: Series = { length: MAX_MINUTES, columns: byColumn(() => []), newest: newestMinute };
  const starts = [...restore([seconds, minutes], saved), newestSecond + 1].slice(-MAX_STARTS);
  let lastTotals: Period | undefined;

  const add = (second: number, events: Period) => {
    extend(seconds, second, events.depth);
    extend(minutes, Math.floor(second / 60), events.depth);
    for (const { columns } of [seconds, minutes]) {
      for (const event of EVENTS) columns[event].push((columns[event].pop() ?? 0) + events[event]);
      columns.depth.splice(-1, 1, events.depth);
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
      if (newest > first) add(newest, { ...byColumn(() => 0), depth: totals.depth });
    },
    /** Returns the number of events of the last minute. */
    lastMinute: (event: (typeof EVENTS)[number]) =>
      seconds.columns[event].slice(-60).reduce((sum, number) => sum + number, 0),
    /**
     * Returns the response to `GET /queue/history`: an array of each number, oldest period first. `end` is the newest
     * complete period, in Unix seconds. Periods up to `since` are left out.
     */
    read(since = 0, step: 1 | 60 = 1) {
      const series = step === 1 ? seconds : minutes;
      // The present minute is not complete.
      const isPartial = step === 60 && seconds.newest < minutes.newest * 60 + 59;
      const end = series.columns.depth.length - Number(isPartial);
      const newest = series.newest - Number(isPartial);
      const count = Math.max(0, Math.min(end, newest - Math.floor(since / step)));
      const columns = byColumn((name) => series.columns[name].slice(end - count, end));
      const length: { seconds?: number; minutes?: number } = step === 1 ? { seconds: count } : { minutes: count };
      return { end: newest * step, ...length, ...columns, starts };
    },
    save(): string {
      const series = [seconds, minutes].map(({ newest, columns }) => ({ newest, columns }));
      return JSON.stringify({ series, starts } satisfies Saved);
    },
  };
}

/** Appends periods without events up to one. */
function extend(series: Series, period: number, depth: number): void {
  const { columns, length } = series;
  const missing = columns.depth.length === 0 ? 1 : Math.min(period - series.newest, length);
  if (missing === 0) return;
  const none = (name: keyof Period) => Array.from({ length: missing }, () => (name === 'depth' ? depth : 0));
  series.columns = byColumn((name) => [...columns[name], ...none(name)].slice(-length));
  series.newest = period;
}

/** Continues saved series. Returns the starts of the processes. A text that is damaged or from the future is ignored. */
function restore(all: readonly Series[], saved: string | undefined): number[] {
  try {
    const { series, starts } = JSON.parse(saved ?? '') as Saved;
    if (series.some(({ newest }, index) => newest > (all[index]?.newest ?? 0))) return [];
    for (const [index, each] of all.entries()) {
      const { newest, columns } = series[index] as Saved['series'][number];
      const column = (name: keyof Period) => Array.from(columns.depth, (_, at) => columns[name][at] ?? 0);
      Object.assign(each, { newest, columns: byColumn(column) });
    }
    return starts;
  } catch {
    return [];
  }
}

function byColumn<Value>(read: (name: keyof Period) => Value): ByColumn<Value> {
  return Object.fromEntries(COLUMNS.map((name) => [name, read(name)])) as ByColumn<Value>;
}

function totalsOf({ accepted, completed, failed, retried, refused, dead, dropped, ...counts }: LiveCounts): Period {
  const redriven = failed - dead - dropped;
  const depth = counts.waiting + counts.limited + counts.retrying + counts.inFlight;
  return { accepted: accepted + redriven, completed, failed, retried, refused, depth };
}
