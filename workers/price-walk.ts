import { randomBytes } from 'node:crypto';
import type { PriceSource, Prices } from './price-source-api.ts';
import { roundPrice, type TickerSymbol } from './symbols.ts';

/** Largest change of a price in one tick, as a fraction of the price. */
const LARGEST_STEP = 0.001;

/** Returns a uniformly distributed number in [0, 1). */
export type Random = () => number;

/** Uses 53 random bits, the precision of a double. */
export const systemRandom: Random = () => Number(randomBytes(8).readBigUInt64BE() >> 11n) / 2 ** 53;

/** Returns the price after one tick: `price` × (1 + f), with f uniform in [-0.001, 0.001], rounded to `decimals`. */
export function nextPrice(price: number, random: Random, decimals = 2): number {
  const f = (2 * random() - 1) * LARGEST_STEP;
  return roundPrice(price * (1 + f), decimals);
}

/** Random walk that continues from the last known prices. */
export class PriceWalk implements PriceSource {
  readonly #symbols: readonly TickerSymbol[];
  readonly #random: Random;

  constructor(symbols: readonly TickerSymbol[], random: Random = systemRandom) {
    this.#symbols = symbols;
    this.#random = random;
  }

  prices(_due: number, last: Prices): readonly number[] {
    return this.#symbols.map(({ decimals }, index) => nextPrice(last[index] as number, this.#random, decimals));
  }
}
