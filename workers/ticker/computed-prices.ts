import { createHash } from 'node:crypto';
import { systemRandom } from '../shared/clock.ts';
import { roundPrice, type TickerSymbol } from '../shared/symbols.ts';
import type { PriceSource, Prices } from './sourced-prices.ts';

/** Largest change of a price in one tick, as a fraction of the price. */
const LARGEST_STEP = 0.001;

/** Returns the price after one tick: `price` × (1 + f), with f uniform in [-0.001, 0.001], rounded to `decimals`. */
export function nextPrice(price: number, random: () => number, decimals = 2): number {
  const f = (2 * random() - 1) * LARGEST_STEP;
  return roundPrice(price * (1 + f), decimals);
}

/** Random walk that continues from the last known prices. */
export class PriceWalk implements PriceSource {
  readonly #symbols: readonly TickerSymbol[];
  readonly #random: () => number;

  constructor(symbols: readonly TickerSymbol[], random = systemRandom.number) {
    this.#symbols = symbols;
    this.#random = random;
  }

  prices(_due: number, last: Prices): readonly number[] {
    return this.#symbols.map(({ decimals }, index) => nextPrice(last[index] as number, this.#random, decimals));
  }
}

/** Number of ticks in the window. A price is the initial price plus the changes of the last `WINDOW` ticks. */
const WINDOW = 600;
// In millionths of the initial price. Each tick also reverts the change of `WINDOW` ticks ago, so a price moves by at
// most 0.08 % of the initial price. The specification allows 0.1 % of the current price.
const MAX_CHANGE = 400;
const MILLION = 1_000_000;

/** Deterministic prices, computed from the seed, the symbol and the number of whole intervals since the epoch. */
export class SeededPrices implements PriceSource {
  readonly #seed: string;
  readonly #intervalMs: number;
  readonly #symbols: readonly TickerSymbol[];
  readonly #prices: number[];
  /** For each symbol, the sum of the changes of the last {@link WINDOW} ticks, in millionths of the initial price. */
  readonly #sums: number[];
  /** Number of the last computed tick, in whole intervals since the epoch. NaN before the first tick. */
  #tick = Number.NaN;

  /** @param symbols the symbols with their initial prices, not their last known prices */
  constructor(seed: string, intervalMs: number, symbols: readonly TickerSymbol[]) {
    this.#seed = seed;
    this.#intervalMs = intervalMs;
    this.#symbols = symbols;
    this.#prices = symbols.map(({ price }) => price);
    this.#sums = symbols.map(() => 0);
  }

  prices(due: number): readonly number[] {
    const tick = Math.floor(due / this.#intervalMs);
    if (tick !== this.#tick) this.#goTo(tick);
    return this.#prices;
  }

  #goTo(tick: number): void {
    const follows = tick === this.#tick + 1;
    this.#tick = tick;
    for (const [index, { symbol, price, decimals }] of this.#symbols.entries()) {
      const sum = follows
        ? (this.#sums[index] as number) + this.#change(symbol, tick) - this.#change(symbol, tick - WINDOW)
        : this.#sum(symbol, tick);
      this.#sums[index] = sum;
      const unitsPerOne = 10 ** decimals;
      this.#prices[index] = Math.round((price * (MILLION + sum)) / (MILLION / unitsPerOne)) / unitsPerOne;
    }
  }

  #sum(symbol: string, tick: number): number {
    let sum = 0;
    for (let each = tick - WINDOW + 1; each <= tick; each++) sum += this.#change(symbol, each);
    return sum;
  }

  /** Returns the change of a symbol's price in one tick, in millionths of the initial price. */
  #change(symbol: string, tick: number): number {
    const digest = createHash('sha256').update(`${this.#seed} ${symbol} ${tick}`).digest();
    return (digest.readUInt32BE() % (2 * MAX_CHANGE + 1)) - MAX_CHANGE;
  }
}
