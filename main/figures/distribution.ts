/**
 * How often something took how long: a count for each range up to one of `bounds`, and the sum of all. Costs a few
 * nanoseconds where it is noted, so that every request and every task can be; it is made readable where it is read.
 */
export class Distribution {
  /** Upper bounds in seconds, ascending; the range of what is longer has none. */
  readonly bounds: readonly number[];
  /** A cell a range, and the sum in seconds behind them, as in `Durations` of workers/messages. */
  readonly #cells: Float64Array;

  /** @param memory where it lies, the `place`-th of those that lie there */
  constructor(bounds: readonly number[], memory?: SharedArrayBuffer, place = 0) {
    const bytes = Distribution.bytes(bounds);
    this.bounds = bounds;
    this.#cells = new Float64Array(memory ?? new ArrayBuffer(bytes), place * bytes, bounds.length + 2);
  }

  /** Memory that a distribution over these bounds needs. */
  static bytes(bounds: readonly number[]): number {
    return (bounds.length + 2) * Float64Array.BYTES_PER_ELEMENT;
  }

  observe(seconds: number): void {
    const cells = this.#cells;
    const last = this.bounds.length;
    let range = 0;
    while (range < last && seconds > (this.bounds[range] as number)) range += 1;
    cells[range] = (cells[range] as number) + 1;
    cells[last + 1] = (cells[last + 1] as number) + seconds;
  }

  /** How many were up to each bound, those under a lower one included, and how many in all. */
  cumulative(): { upTo: number[]; count: number; sum: number } {
    let count = 0;
    const upTo = this.bounds.map((_, range) => {
      count += this.#cells[range] as number;
      return count;
    });
    count += this.#cells[this.bounds.length] as number;
    return { upTo, count, sum: this.#cells[this.bounds.length + 1] as number };
  }
}

/** From half a millisecond to ten seconds: answers, tasks, waits. */
export const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** From a millisecond to seconds: how late what is due comes. */
export const DELAYS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5] as const;
