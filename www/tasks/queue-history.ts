import { request } from './tasks-api.ts';

/** Length of the history in seconds, which is the period that the service keeps. */
export const HISTORY_SECONDS = 900;

const NAMES = ['accepted', 'completed', 'failed', 'retried', 'depth'] as const;
type Name = (typeof NAMES)[number];

/** Response of `GET /queue/history`: numbers per second, oldest first. `end` is the Unix time of the newest second. */
export interface HistoryPart extends Record<Name, number[]> {
  end: number;
  seconds: number;
}

/**
 * Numbers of the queue by period. `times` are the Unix times at which the periods end. The rates are per second, and
 * `depth` is the greatest in the period. A period without numbers is null.
 */
export type Periods = { times: number[] } & Record<Name, (number | null)[]>;

/** Returns the history after the Unix time `since`, or the whole history. @throws {Refused | Unreachable} */
export async function readHistory(since?: number): Promise<HistoryPart> {
  return request(since === undefined ? '/queue/history' : `/queue/history?since=${since}`);
}

/**
 * History of the queue over the last {@link HISTORY_SECONDS} seconds: one number per second, or null if it is unknown.
 */
export class QueueHistory {
  #end: number | undefined;
  #columns = emptyColumns();

  /** Unix time of the newest second. Undefined until the first part is added. */
  get end(): number | undefined {
    return this.#end;
  }

  /** Adds newer numbers. If the service's clock was set back, discards the older numbers. */
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

  /** Returns the history in periods of `length` seconds that start at multiples of `length`. */
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
