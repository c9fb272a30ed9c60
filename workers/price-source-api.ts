import type { TickerSymbol } from './symbols.ts';

/** Source of the ticker's prices, either built in or a module. */
export interface PriceSource {
  /** Called with the last known prices before the first call of `prices`, and when this node takes over the ticks. */
  start?(symbols: readonly TickerSymbol[]): unknown;
  /**
   * Returns one tick's prices in the order of the symbols.
   *
   * @param due time at which the tick is due, in milliseconds since the epoch
   * @param last the last known prices
   */
  prices(due: number, last: Prices): Prices | PromiseLike<Prices>;
}

export type Prices = readonly number[] | Float64Array;

/** Built-in source that computes prices from the time, so that a snapshot between two ticks has current prices. */
export interface TimedPriceSource extends PriceSource {
  /** Returns the prices of the last tick due at or before `now` (milliseconds since the epoch). */
  pricesAt(now: number): Prices;
}
