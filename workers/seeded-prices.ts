import { createHash } from 'node:crypto';
import { priceList } from './price-walk.ts';
import { initialPrices, type PriceSymbol, symbols, type TickerPrice } from './symbols.ts';

/** Number of ticks in the window. A price is the initial price plus the changes of the last `WINDOW` ticks. */
const WINDOW = 600;
/**
 * Largest change that a tick adds to a price, in millionths of the initial price. The change is subtracted {@link WINDOW} ticks
 * later, so a price moves by at most 0.08 % of the initial price in one tick. The specification allows 0.1 % of the current
 * price: more than that, as long as the price is above 80 % of the initial price (the rest is 35 standard deviations away).
 */
const MAX_CHANGE = 400;

/** Deterministic prices: a function of the seed, the symbol and the number of the tick (whole intervals since the epoch) only. */
export class SeededPrices {
  readonly #values: Float64Array;
  readonly #seed: string;
  readonly #intervalMs: number;
  /** Number of the tick for which `#sums` was computed. NaN before the first tick. */
  #tick = Number.NaN;
  /** For each symbol, the sum of the changes of the last {@link WINDOW} ticks, in millionths of the initial price. */
  readonly #sums: number[] = symbols.map(() => 0);

  /** @param values array to which each tick writes the prices, in the order of `symbols` */
  constructor(values: Float64Array, seed: string, intervalMs: number) {
    this.#values = values;
    this.#seed = seed;
    this.#intervalMs = intervalMs;
  }

  /** Computes the prices of the tick that is due at the time `due` (milliseconds since the epoch). */
  step(due: number): void {
    this.#goTo(Math.floor(due / this.#intervalMs));
  }

  /** Returns the prices of all symbols at the time `now` (milliseconds since the epoch). */
  snapshot(now: number): TickerPrice[] {
    this.step(now);
    return priceList(this.#values, now);
  }

  #goTo(tick: number): void {
    if (tick === this.#tick) return;
    const follows = tick === this.#tick + 1;
    this.#tick = tick;
    for (const [index, symbol] of symbols.entries()) {
      const sum = follows
        ? (this.#sums[index] as number) + this.#change(symbol, tick) - this.#change(symbol, tick - WINDOW)
        : this.#sum(symbol, tick);
      this.#sums[index] = sum;
      this.#values[index] = Math.round((initialPrices[symbol] * (1_000_000 + sum)) / 10_000) / 100;
    }
  }

  #sum(symbol: PriceSymbol, tick: number): number {
    let sum = 0;
    for (let each = tick - WINDOW + 1; each <= tick; each++) sum += this.#change(symbol, each);
    return sum;
  }

  /** Returns the change that a tick adds to the price of a symbol, in millionths of the initial price. */
  #change(symbol: PriceSymbol, tick: number): number {
    const digest = createHash('sha256').update(`${this.#seed} ${symbol} ${tick}`).digest();
    return (digest.readUInt32BE() % (2 * MAX_CHANGE + 1)) - MAX_CHANGE;
  }
}
