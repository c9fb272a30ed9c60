import type { TickerSymbol } from './symbols.ts';

/** Source of the ticker's prices, either built in or a module. */
export interface PriceSource {
  /**
   * Called before the first call of `prices`, and again when this node takes over the ticks from another node.
   *
   * @param symbols the configured symbols, each with its last known price
   */
  start?(symbols: readonly TickerSymbol[]): unknown;
  /**
   * Returns one tick's prices in the order of the symbols. The caller rounds each price to its symbol's decimals.
   *
   * @param due time at which the tick is due, in milliseconds since the epoch
   * @param last the last known prices
   */
  prices(due: number, last: Prices): Prices | PromiseLike<Prices>;
}

/** Prices in the order of the symbols. */
export type Prices = readonly number[] | Float64Array;

/** Built-in source that computes prices from the time, so that a snapshot between two ticks has current prices. */
export interface TimedPriceSource extends PriceSource {
  /** Returns the prices of the last tick due at or before `now` (milliseconds since the epoch). */
  pricesAt(now: number): Prices;
}
