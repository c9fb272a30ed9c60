/** Longest time span that a chart can show, in seconds. */
export const LONGEST_WINDOW = 15 * 60;

/** Unix times and the price at each time. A null price marks a gap in the chart's line. */
export interface Stretch {
  seconds: number[];
  prices: (number | null)[];
}

/** Prices of one symbol, at most one per second, oldest first. Prices older than {@link LONGEST_WINDOW} are evicted. */
export class History {
  readonly #seconds: number[] = [];
  readonly #prices: number[] = [];

  /** Adds a price, and removes prices from `second` onwards, because the service's clock may have been set back. */
  add(second: number, price: number): void {
    while ((this.#seconds.at(-1) ?? Number.NEGATIVE_INFINITY) >= second) {
      this.#seconds.pop();
      this.#prices.pop();
    }
    this.#seconds.push(second);
    this.#prices.push(price);
    // Old prices are evicted only once they fill half of the array, because every eviction shifts all newer prices.
    if (this.#seconds.length > 2 * LONGEST_WINDOW) this.#forgetBefore(second - LONGEST_WINDOW);
  }

  get size(): number {
    return this.#seconds.length;
  }

  /** Adds past prices, but does not replace known prices. @param seconds Unix times, ascending */
  fill(seconds: readonly number[], prices: readonly number[]): void {
    const merged = new Map(seconds.map((second, index) => [second, prices[index] as number]));
    for (const [index, second] of this.#seconds.entries()) merged.set(second, this.#prices[index] as number);
    const entries = [...merged].sort(([a], [b]) => a - b).slice(-2 * LONGEST_WINDOW);
    this.#seconds.splice(0, Number.POSITIVE_INFINITY, ...entries.map(([second]) => second));
    this.#prices.splice(0, Number.POSITIVE_INFINITY, ...entries.map(([, price]) => price));
  }

  /** Returns the last price at or before a Unix time, or undefined if that price is at least `gap` seconds older. */
  at(second: number, gap: number): number | undefined {
    const index = this.#firstAfter(second) - 1;
    const found = this.#seconds[index];
    return found !== undefined && second - found < gap ? this.#prices[index] : undefined;
  }

  /** Returns the prices in a span of Unix times and the last price before it, with null in gaps from `gap` seconds. */
  between(from: number, to: number, gap: number): Stretch {
    const seconds: number[] = [];
    const prices: (number | null)[] = [];
    const first = Math.max(0, this.#firstAfter(from - 1) - 1);
    const end = this.#firstAfter(to);
    for (let index = first; index < end; index++) {
      const second = this.#seconds[index] as number;
      const previous = seconds.at(-1);
      if (previous !== undefined && second - previous >= gap) {
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
