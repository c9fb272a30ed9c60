/** Longest window in seconds. */
export const LONGEST_WINDOW = 15 * 60;

/** Seconds without a price after which the line breaks instead of being interpolated. */
const GAP = 3;

/** Part of a history. A null price breaks the line. */
export interface Stretch {
  seconds: number[];
  prices: (number | null)[];
}

/** Prices of one symbol, at most one per second, oldest first. Prices older than the longest window are evicted. */
export class History {
  readonly #seconds: number[] = [];
  readonly #prices: number[] = [];

  /** Adds a price. A second price of the same second replaces the first; a clock that was set back restarts the history there. */
  add(second: number, price: number): void {
    while ((this.#seconds.at(-1) ?? Number.NEGATIVE_INFINITY) >= second) {
      this.#seconds.pop();
      this.#prices.pop();
    }
    this.#seconds.push(second);
    this.#prices.push(price);
    // Rarely, to spread the cost of moving the array over many ticks.
    if (this.#seconds.length > 2 * LONGEST_WINDOW) this.#forgetBefore(second - LONGEST_WINDOW);
  }

  /** Number of prices. */
  get size(): number {
    return this.#seconds.length;
  }

  /** The price at a second, or shortly before it; undefined if there is none. */
  at(second: number): number | undefined {
    const index = this.#firstAfter(second) - 1;
    const found = this.#seconds[index];
    return found !== undefined && second - found < GAP ? this.#prices[index] : undefined;
  }

  /** Prices between two seconds, preceded by one price, if any, where the line starts. */
  between(from: number, to: number): Stretch {
    const seconds: number[] = [];
    const prices: (number | null)[] = [];
    const first = Math.max(0, this.#firstAfter(from - 1) - 1);
    const end = this.#firstAfter(to);
    for (let index = first; index < end; index++) {
      const second = this.#seconds[index] as number;
      const previous = seconds.at(-1);
      if (previous !== undefined && second - previous >= GAP) {
        seconds.push(previous + 1);
        prices.push(null);
      }
      seconds.push(second);
      prices.push(this.#prices[index] as number);
    }
    return { seconds, prices };
  }

  #firstAfter(second: number): number {
    let low = 0;
    let high = this.#seconds.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#seconds[middle] as number) <= second) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #forgetBefore(second: number): void {
    const count = this.#firstAfter(second) - 1;
    this.#seconds.splice(0, count);
    this.#prices.splice(0, count);
  }
}
