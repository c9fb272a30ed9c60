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

/** Returns a random walk that continues from the last known prices. */
export function priceWalk(symbols: readonly TickerSymbol[], random = systemRandom.number) {
  return {
    prices: (_due: number, last: Prices): readonly number[] =>
      symbols.map(({ decimals }, index) => nextPrice(last[index] as number, random, decimals)),
  } satisfies PriceSource;
}

/** Number of ticks in the window. A price is the initial price plus the changes of the last `WINDOW` ticks. */
const WINDOW = 600;
// In millionths of the initial price. Each tick also reverts the change of `WINDOW` ticks ago, so a price moves by at
// most 0.08 % of the initial price. The specification allows 0.1 % of the current price.
const MAX_CHANGE = 400;
const MILLION = 1_000_000;

/**
 * Returns deterministic prices, computed from the seed, the symbol and the number of whole intervals since the epoch.
 *
 * @param symbols the symbols with their initial prices, not their last known prices
 */
export function seededPrices(seed: string, intervalMs: number, symbols: readonly TickerSymbol[]) {
  /** Number of the last computed tick. NaN before the first tick. */
  let last = Number.NaN;
  /** For each symbol, the sum of the changes of the last {@link WINDOW} ticks, in millionths of the initial price. */
  let sums: readonly number[] = [];

  /** Returns the change of a symbol's price in one tick, in millionths of the initial price. */
  const change = (symbol: string, tick: number): number => {
    const digest = createHash('sha256').update(`${seed} ${symbol} ${tick}`).digest();
    return (digest.readUInt32BE() % (2 * MAX_CHANGE + 1)) - MAX_CHANGE;
  };
  const sumUntil = (symbol: string, tick: number): number => {
    let sum = 0;
    for (let each = tick - WINDOW + 1; each <= tick; each++) sum += change(symbol, each);
    return sum;
  };
  const goTo = (tick: number): void => {
    const follows = tick === last + 1;
    last = tick;
    sums = symbols.map(({ symbol }, index) =>
      follows ? (sums[index] as number) + change(symbol, tick) - change(symbol, tick - WINDOW) : sumUntil(symbol, tick),
    );
  };
  return {
    prices(due: number): readonly number[] {
      const tick = Math.floor(due / intervalMs);
      if (tick !== last) goTo(tick);
      return symbols.map(({ price, decimals }, index) => {
        const unitsPerOne = 10 ** decimals;
        return Math.round((price * (MILLION + (sums[index] as number))) / (MILLION / unitsPerOne)) / unitsPerOne;
      });
    },
  } satisfies PriceSource;
}
