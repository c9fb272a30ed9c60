/** Seconds for which the service has each price. */
export const RECENT = 15 * 60;
/** Seconds for which the service has one price a minute. */
export const DAY = 24 * 60 * 60;
/** Least interval between two prices that counts as a gap, in periods. */
const GAP_PERIODS = 2.5;

export interface Point {
  /** Unix time. */
  second: number;
  price: number;
}

/** Prices of a period that starts at the Unix time `second`. */
export interface Candle {
  second: number;
  open: number;
  high: number;
  low: number;
  close: number;
}

/** Prices of one symbol, oldest first, of at most `length` seconds. */
export class History {
  readonly #length: number;
  readonly #period: number;
  #points: Point[] = [];

  /** @param period seconds between two prices, at least */
  constructor(length: number, period: number) {
    this.#length = length;
    this.#period = period;
  }

  /** Adds a price, and removes prices from `second` onwards, because the service's clock may have been set back. */
  add(second: number, price: number): void {
    while (this.newest !== undefined && this.newest >= second) this.#points.pop();
    this.#points.push({ second, price });
    // Old prices are evicted only once they fill half of the array, because every eviction copies all newer prices.
    if (this.size > this.#maxSize) this.#points = this.between(second - this.#length, second);
  }

  get size(): number {
    return this.#points.length;
  }

  /** Adds past prices, but does not replace known prices. @param seconds Unix times, ascending */
  fill(seconds: readonly number[], prices: readonly number[]): void {
    const merged = new Map(seconds.map((second, index) => [second, prices[index] as number]));
    for (const { second, price } of this.#points) merged.set(second, price);
    const points = Array.from(merged, ([second, price]) => ({ second, price })).sort((a, b) => a.second - b.second);
    this.#points = points.slice(-this.#maxSize);
  }

  /** Unix time of the newest price, or undefined without a price. */
  get newest(): number | undefined {
    return this.#points.at(-1)?.second;
  }

  /** Returns the least interval between two prices that counts as a gap, in seconds. @param least lower bound of the result */
  gap(least: number): number {
    return Math.max(least, GAP_PERIODS * this.#period);
  }

  /** Returns the last price at or before a Unix time, or undefined if a gap follows the price. */
  at(second: number, leastGap: number): number | undefined {
    const found = this.#points[this.#lastAt(second)];
    return found !== undefined && second - found.second < this.gap(leastGap) ? found.price : undefined;
  }

  /** Returns the first price at or after a Unix time. */
  firstFrom(second: number): Point | undefined {
    return this.#points[this.#lastAt(second - 1) + 1];
  }

  /** Returns the prices in a span of Unix times, and the last price before it. */
  between(from: number, to: number): Point[] {
    return this.#points.slice(Math.max(0, this.#lastAt(from - 1)), this.#lastAt(to) + 1);
  }

  get #maxSize(): number {
    return (2 * this.#length) / this.#period;
  }

  #lastAt(time: number): number {
    return this.#points.findLastIndex(({ second }) => second <= time);
  }
}

/** Combines prices into candles that start at multiples of `length` seconds. If it is 0, each price is a candle. */
export function toCandles(points: readonly Point[], length: number): Candle[] {
  const candles: Candle[] = [];
  for (const { second, price } of points) {
    const start = length === 0 ? second : Math.floor(second / length) * length;
    const last = candles.at(-1);
    if (last?.second === start) {
      last.high = Math.max(price, last.high);
      last.low = Math.min(price, last.low);
      last.close = price;
    } else candles.push({ second: start, open: price, high: price, low: price, close: price });
  }
  return candles;
}
