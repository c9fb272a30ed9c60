import type { QueueHistory as HistoryPart } from '../client/queue-api.ts';

/** Columns of the history, in the order of its table. */
const NAMES = ['accepted', 'completed', 'failed', 'retried', 'refused', 'depth'] as const;
type Name = (typeof NAMES)[number];

/** One value per period: the mean per second, or for `depth` the maximum. `times` are the periods' ends (Unix time). */
export type Periods = { times: number[] } & Record<Name, (number | null)[]>;

/** Queue history in steps of a second or a minute. Times are Unix seconds. */
export class QueueHistory {
  readonly step: 1 | 60;
  readonly #length: number;
  /** Newest steps. Undefined without data. */
  #newest: HistoryPart | undefined;

  constructor(step: 1 | 60, length: number) {
    this.step = step;
    this.#length = length;
  }

  /** Time at which the newest step ended, or 0 without data. */
  get end(): number {
    return this.#newest === undefined ? 0 : this.#newest.end + this.step;
  }

  /** When the service started, oldest first. */
  get starts(): readonly number[] {
    return this.#newest?.starts ?? [];
  }

  /** Adds the part that `read` returns for the steps that are missing, or all if the service's clock was set back. */
  async extend(read: (query: { step: 1 | 60; since?: number }) => Promise<HistoryPart>): Promise<void> {
    const { step } = this;
    const since = this.#newest?.end;
    const part = await read(since === undefined ? { step } : { step, since });
    this.add(since !== undefined && part.end < since ? await read({ step }) : part);
  }

  /** Adds the newest part of the history, which replaces a part that it does not continue. */
  add(part: HistoryPart): void {
    const isContinued = this.#newest?.end === part.end - part.depth.length * this.step;
    const known = isContinued ? this.#newest : undefined;
    const columns = NAMES.map((name) => [name, [...(known?.[name] ?? []), ...part[name]].slice(-this.#length)]);
    this.#newest = { ...part, ...Object.fromEntries(columns) };
  }

  /** Returns the last `seconds` in periods of `length` seconds, aligned to multiples of `length`. */
  periods(seconds: number, length: number): Periods {
    const { end } = this;
    const start = Math.ceil((end - seconds) / length) * length;
    const starts = Array.from({ length: Math.ceil((end - start) / length) }, (_, index) => start + index * length);
    const times = starts.map((from) => Math.min(from + length, end));
    const columns = NAMES.map((name) => [name, starts.map((from, index) => this.#summary(name, from, times[index]))]);
    return { times, ...Object.fromEntries(columns) };
  }

  /** Returns the mean per second of the last `seconds`, or for `depth` the maximum. Null if unknown. */
  newest(name: Name, seconds: number): number | null {
    return this.#summary(name, this.end - seconds, this.end);
  }

  sum(name: Exclude<Name, 'depth'>, seconds: number): number {
    return sumOf(this.#between(name, this.end - seconds, this.end));
  }

  /** Returns the mean increase of the depth per second over the last `seconds`. */
  growth(seconds: number): number {
    const depths = this.#between('depth', this.end - seconds - this.step, this.end);
    const [first = 0] = depths;
    return depths.length < 2 ? 0 : ((depths.at(-1) ?? 0) - first) / ((depths.length - 1) * this.step);
  }

  /** Times at which the steps of a value began, newest first, with the value. */
  backwards(name: Name): [began: number, value: number][] {
    const { end, step } = this;
    const column = this.#newest?.[name] ?? [];
    return column.toReversed().map((value, index) => [end - (index + 1) * step, value]);
  }

  #summary(name: Name, from: number, to = 0): number | null {
    const values = this.#between(name, from, to);
    if (values.length === 0) return null;
    return name === 'depth' ? Math.max(...values) : sumOf(values) / (values.length * this.step);
  }

  #between(name: Name, from: number, to: number): number[] {
    const { end, step } = this;
    const column = this.#newest?.[name] ?? [];
    const indexOf = (time: number) => Math.max(0, column.length - (end - time) / step);
    return column.slice(indexOf(from), indexOf(to));
  }
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** The last 15 minutes by the second, and the last 24 hours by the minute. */
export type Histories = Readonly<Record<'seconds' | 'minutes', QueueHistory>>;

/** Longest interruption, in seconds, of what began at {@link beginningOf}. */
const MAX_GAP = 60;

/** Returns since when a value fits, with interruptions of up to a minute: milliseconds since the epoch. Undefined if it does not fit. */
export function beginningOf({ seconds, minutes }: Histories, name: Name, fits: (value: number) => boolean) {
  let beginning: number | undefined;
  let last = seconds.end;
  let covered = last;
  for (const history of [seconds, minutes]) {
    for (const [began, value] of history.backwards(name)) {
      if (began + history.step > covered) continue;
      covered = began;
      if (fits(value)) {
        beginning = began * 1_000;
        last = began;
      } else if (last - began > MAX_GAP) return beginning;
    }
  }
  return beginning;
}
