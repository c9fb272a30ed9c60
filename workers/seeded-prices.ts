import { createHash } from 'node:crypto';
import { initialPrices, type PriceSymbol, priceList, symbols, type TickerPrice } from './price-walk.ts';

/** Number of ticks in the window. A price is the initial price plus the changes of the last `WINDOW` ticks. */
const WINDOW = 600;
/**
 * Largest change by one tick, in millionths of the initial price. The change is reversed {@link WINDOW} ticks later, so a price
 * changes by up to twice that in one tick. That is less than 0.1 % of the price, the random walk's limit, as long as the price
 * stays above 80 % of the initial price. A lower price is 35 standard deviations away.
 */
const MAX_CHANGE = 400;

/** Deterministic prices: a pure function of seed, symbol and tick number, the number of whole intervals since the epoch. */
export class SeededPrices {
  readonly #values: Float64Array;
  readonly #seed: string;
  readonly #intervalMs: number;
  /** Tick number of `#sums`. */
  #tick = Number.NaN;
  /** Sum of the changes in the window that ends with the tick, for each symbol. */
  readonly #sums: number[] = symbols.map(() => 0);

  /** @param values receives the prices of each tick, in the order of `symbols` */
  constructor(values: Float64Array, seed: string, intervalMs: number) {
    this.#values = values;
    this.#seed = seed;
    this.#intervalMs = intervalMs;
  }

  /** Computes the prices of the tick due at `due`, in milliseconds since the epoch. */
  step(due: number): void {
    this.#goTo(Math.floor(due / this.#intervalMs));
  }

  /** Returns all prices at `now`, in milliseconds since the epoch. */
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

  /** Change by one tick, in millionths of the initial price. */
  #change(symbol: PriceSymbol, tick: number): number {
    const digest = createHash('sha256').update(`${this.#seed} ${symbol} ${tick}`).digest();
    return (digest.readUInt32BE() % (2 * MAX_CHANGE + 1)) - MAX_CHANGE;
  }
}
