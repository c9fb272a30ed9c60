/** The longest window that can be shown. */
export const LONGEST_WINDOW = 15 * 60;

/** Seconds without a price from which on a line through them would be an invention. */
const GAP = 3;

/** A stretch of a history; a null price is where the line breaks. */
export interface Stretch {
  seconds: number[];
  prices: (number | null)[];
}

/** Prices of one symbol, at most one a second, oldest first. Bounded: what no window shows any more is forgotten. */
export class History {
  readonly #seconds: number[] = [];
  readonly #prices: number[] = [];

  /** Adds a price; of two in one second the later stays, and a clock that was set back starts over from there. */
  add(second: number, price: number): void {
    while ((this.#seconds.at(-1) ?? Number.NEGATIVE_INFINITY) >= second) {
      this.#seconds.pop();
      this.#prices.pop();
    }
    this.#seconds.push(second);
    this.#prices.push(price);
    // Rarely, so that the cost of moving what stays is spread over many ticks.
    if (this.#seconds.length > 2 * LONGEST_WINDOW) this.#forgetBefore(second - LONGEST_WINDOW);
  }

  /** How many prices are kept. */
  get size(): number {
    return this.#seconds.length;
  }

  /** The price that held at a second, where one came at it or shortly before. */
  at(second: number): number | undefined {
    const index = this.#firstAfter(second) - 1;
    const found = this.#seconds[index];
    return found !== undefined && second - found < GAP ? this.#prices[index] : undefined;
  }

  /** What lies from one second to another, with one price before, where there is one, for the line to start from. */
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
