import type { TickerSymbol } from './symbols.ts';

/** Source of the ticker's prices: a built-in source, or the module that `PRICE_SOURCE` names. */
export interface PriceSource {
  /**
   * Called before the first call of `prices`, and again when this node resumes making the ticks after another node did.
   *
   * @param symbols the configured symbols, each with its last known price
   */
  start?(symbols: readonly TickerSymbol[]): unknown;
  /**
   * Returns the prices of one tick in the order of the symbols. The caller rounds them to each symbol's decimals.
   *
   * @param due time at which the tick is due, in milliseconds since the epoch
   * @param last the last known prices
   */
  prices(due: number, last: Prices): Prices | PromiseLike<Prices>;
}

/** Prices in the order of the symbols. */
export type Prices = readonly number[] | Float64Array;

/** Built-in source whose prices are a function of time, so that even a snapshot between two ticks has current prices. */
export interface TimedPriceSource extends PriceSource {
  /** Returns the prices of the last tick due at the time `now` (milliseconds since the epoch). */
  pricesAt(now: number): Prices;
}
