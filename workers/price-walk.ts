import { randomBytes } from 'node:crypto';

export const initialPrices = { 'BTC-USD': 42_000, 'ETH-USD': 2_500, 'SOL-USD': 95 } as const;

export type PriceSymbol = keyof typeof initialPrices;
export const symbols = Object.keys(initialPrices) as PriceSymbol[];

/** One entry of a price update. `price` has two decimals, `timestamp` is in Unix seconds. */
export interface TickerPrice {
  symbol: PriceSymbol;
  price: number;
  timestamp: number;
}

/** Largest change of a price in one tick, as a fraction of the price. */
const LARGEST_STEP = 0.001;

/** Returns a uniformly distributed number in [0, 1). */
export type Random = () => number;

/** Uses the operating system's entropy, with the 53 bits of a double's precision. */
export const systemRandom: Random = () => Number(randomBytes(8).readBigUInt64BE() >> 11n) / 2 ** 53;

/** Returns the price after one tick: `price` × (1 + f), with f uniform in [-0.001, 0.001], rounded to two decimals. */
export function nextPrice(price: number, random: Random): number {
  const f = (2 * random() - 1) * LARGEST_STEP;
  return Math.round(price * (1 + f) * 100) / 100;
}

/** Random walk of the prices in `values`, in the order of {@link symbols}. A price of zero becomes the initial price. */
export class PriceWalk {
  readonly #values: Float64Array;
  readonly #random: Random;

  constructor(values: Float64Array, random: Random = systemRandom) {
    this.#values = values;
    this.#random = random;
    for (const [index, symbol] of symbols.entries()) values[index] ||= initialPrices[symbol];
  }

  step(): void {
    for (const index of symbols.keys()) this.#values[index] = nextPrice(this.#values[index] as number, this.#random);
  }

  /** Returns all prices with the timestamp of `now` (milliseconds since the epoch). */
  snapshot(now: number): TickerPrice[] {
    return priceList(this.#values, now);
  }
}

/** Returns the entries of a price update at `now` (milliseconds since the epoch). `values` are in the order of {@link symbols}. */
export function priceList(values: Float64Array, now: number): TickerPrice[] {
  const timestamp = Math.floor(now / 1000);
  return symbols.map((symbol, index) => ({ symbol, price: values[index] as number, timestamp }));
}
