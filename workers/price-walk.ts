import { randomBytes } from 'node:crypto';
import { initialPrices, symbols, type TickerPrice } from './symbols.ts';

/** Largest change of a price in one tick, as a fraction of the price. */
const LARGEST_STEP = 0.001;

/** Random number generator, which returns uniformly distributed numbers in [0, 1). */
export type Random = () => number;

/** Returns random numbers from the operating system's entropy, with 53 random bits, the precision of a double. */
export const systemRandom: Random = () => Number(randomBytes(8).readBigUInt64BE() >> 11n) / 2 ** 53;

/** Returns the price after one tick: `price` × (1 + f), with f uniform in [-0.001, 0.001], rounded to two decimals. */
export function nextPrice(price: number, random: Random): number {
  const f = (2 * random() - 1) * LARGEST_STEP;
  return Math.round(price * (1 + f) * 100) / 100;
}

/** Random walk of the prices of all {@link symbols}, in an array of the caller. A price of 0 is first set to the initial price. */
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

  /** Returns the current prices of all symbols, with the time `now` (milliseconds since the epoch) as their timestamp. */
  snapshot(now: number): TickerPrice[] {
    return priceList(this.#values, now);
  }
}

/** Returns a price update of the time `now` (milliseconds since the epoch). `values` has one price for each of {@link symbols}. */
export function priceList(values: Float64Array, now: number): TickerPrice[] {
  const timestamp = Math.floor(now / 1000);
  return symbols.map((symbol, index) => ({ symbol, price: values[index] as number, timestamp }));
}
