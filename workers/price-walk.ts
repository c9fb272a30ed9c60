import { randomBytes } from 'node:crypto';

/** The symbols of the stream and the prices they start from. */
export const initialPrices = { 'BTC-USD': 42_000, 'ETH-USD': 2_500, 'SOL-USD': 95 } as const;

export type PriceSymbol = keyof typeof initialPrices;
export const symbols = Object.keys(initialPrices) as PriceSymbol[];

/** One entry of a price update: price with two decimals, timestamp in Unix seconds. */
export interface TickerPrice {
  symbol: PriceSymbol;
  price: number;
  timestamp: number;
}

/** The largest share by which a price moves in one tick, up or down. */
const LARGEST_STEP = 0.001;

/** A number drawn evenly from [0, 1). */
export type Random = () => number;

/** {@link Random} out of the operating system's entropy, with the 53 bits a double can hold. */
export const systemRandom: Random = () => Number(randomBytes(8).readBigUInt64BE() >> 11n) / 2 ** 53;

/** The price after one tick: `price` × (1 + f), f even in [-0.001, 0.001], rounded to two decimals. */
export function nextPrice(price: number, random: Random): number {
  const f = (2 * random() - 1) * LARGEST_STEP;
  return Math.round(price * (1 + f) * 100) / 100;
}

/**
 * The prices of all symbols, in `values` in the order of {@link symbols}. The memory is the caller's,
 * so that it can outlive the walk; a price that is still zero there starts at its initial value.
 */
export class PriceWalk {
  readonly #values: Float64Array;
  readonly #random: Random;

  constructor(values: Float64Array, random: Random = systemRandom) {
    this.#values = values;
    this.#random = random;
    for (const [index, symbol] of symbols.entries()) values[index] ||= initialPrices[symbol];
  }

  /** Moves every price by one tick, whenever it is due. */
  step(): void {
    for (const index of symbols.keys()) this.#values[index] = nextPrice(this.#values[index] as number, this.#random);
  }

  /** All prices, stamped with `now` (milliseconds since the epoch) in whole seconds. */
  snapshot(now: number): TickerPrice[] {
    const timestamp = Math.floor(now / 1000);
    return symbols.map((symbol, index) => ({ symbol, price: this.#values[index] as number, timestamp }));
  }
}
