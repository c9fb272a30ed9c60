import type { QueueHistory as HistoryPart } from '../client/queue-api.ts';

export type { QueueHistory as HistoryPart } from '../client/queue-api.ts';

export const HISTORY_SECONDS = 900;

/** Number of seconds over which the newest rates are averaged. */
const NEWEST_SECONDS = 5;

const NAMES = ['accepted', 'completed', 'failed', 'retried', 'depth'] as const;
type Name = (typeof NAMES)[number];

/** One value per period: the mean per second, or for `depth` the maximum. `times` are the periods' ends (Unix time). */
export type Periods = { times: number[] } & Record<Name, (number | null)[]>;

/** Queue history of the last 15 minutes, with one value per second. The value of an unknown second is null. */
export class QueueHistory {
  #end: number | undefined;
  #columns = emptyColumns();

  /** Unix time of the newest second, or undefined without data. */
  get end(): number | undefined {
    return this.#end;
  }

  /** Adds the newest part of the history, and discards older parts if the service's clock was set back. */
  add(part: HistoryPart): void {
    if (this.#end === undefined || part.end < this.#end) {
      this.#columns = emptyColumns();
      this.#end = part.end - part.seconds;
    }
    const missing = part.end - this.#end;
    for (const name of NAMES) {
      const unknown = Math.min(Math.max(missing - part.seconds, 0), HISTORY_SECONDS);
      const added = missing === 0 ? [] : part[name].slice(-missing);
      this.#columns[name] = [...this.#columns[name], ...Array(unknown).fill(null), ...added].slice(-HISTORY_SECONDS);
    }
    this.#end = part.end;
  }

  /** Returns the history in periods of `length` seconds, aligned to multiples of `length`. */
  periods(length: number): Periods {
    const periods: Periods = { times: [], ...emptyColumns() };
    const end = this.#end ?? 0;
    const start = end - HISTORY_SECONDS;
    for (let from = Math.ceil(start / length) * length; from < end; from += length) {
      const to = Math.min(from + length, end);
      periods.times.push(to);
      for (const name of NAMES) periods[name].push(summary(name, this.#between(name, from, to)));
    }
    return periods;
  }

  /** Returns the mean rates of the last {@link NEWEST_SECONDS} seconds, and the depth in the last second. */
  newest() {
    const end = this.#end ?? 0;
    const newest = (name: Name) =>
      summary(name, this.#between(name, end - (name === 'depth' ? 1 : NEWEST_SECONDS), end));
    return { completed: newest('completed'), failed: newest('failed'), depth: newest('depth') };
  }

  /** Returns the known numbers after the Unix time `from`, up to and including `to`. */
  #between(name: Name, from: number, to: number): number[] {
    const column = this.#columns[name];
    const first = (this.#end ?? 0) - column.length;
    return column.slice(Math.max(from - first, 0), Math.max(to - first, 0)).filter((value) => value !== null);
  }
}

function emptyColumns(): Record<Name, (number | null)[]> {
  return { accepted: [], completed: [], failed: [], retried: [], depth: [] };
}

function summary(name: Name, values: number[]): number | null {
  if (values.length === 0) return null;
  return name === 'depth' ? Math.max(...values) : values.reduce((sum, value) => sum + value, 0) / values.length;
}
