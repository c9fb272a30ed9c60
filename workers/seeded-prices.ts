import { createHash } from 'node:crypto';
import { initialPrices, type PriceSymbol, symbols, type TickerPrice } from './price-walk.ts';

/** Ticks whose moves a price is made of. */
const WINDOW = 600;
/**
 * Largest share of the initial price, in millionths, that one tick adds and takes away again {@link WINDOW} ticks later. Twice
 * of it is less than 0.1 % of the price, however far the price has gone, so that no tick breaks the rule of the random walk.
 */
const LARGEST_MOVE = 400;

/**
 * Prices that are a pure function of seed, symbol and tick number, so that whoever knows the seed can tell them. The number
 * of a tick is the number of whole intervals since the epoch: with one of a second it is the timestamp.
 */
export class SeededPrices {
  readonly #values: Float64Array;
  readonly #seed: string;
  readonly #intervalMs: number;
  /** The tick that `#sums` hold for. */
  #tick = Number.NaN;
  /** Of the moves of the window that ends with the tick, for each symbol. */
  readonly #sums: number[] = symbols.map(() => 0);

  /** @param values gets the prices of each tick, in the order of `symbols`; the caller's memory */
  constructor(values: Float64Array, seed: string, intervalMs: number) {
    this.#values = values;
    this.#seed = seed;
    this.#intervalMs = intervalMs;
  }

  /** The tick that is due at `due`, in milliseconds since the epoch. */
  step(due: number): void {
    this.#goTo(this.#tickAt(due));
  }

  /** All prices at `now`, in milliseconds since the epoch. */
  snapshot(now: number): TickerPrice[] {
    this.#goTo(this.#tickAt(now));
    const timestamp = Math.floor(now / 1000);
    return symbols.map((symbol, index) => ({ symbol, price: this.#values[index] as number, timestamp }));
  }

  #tickAt(time: number): number {
    return Math.floor(time / this.#intervalMs);
  }

  #goTo(tick: number): void {
    if (tick === this.#tick) return;
    const follows = tick === this.#tick + 1;
    this.#tick = tick;
    for (const [index, symbol] of symbols.entries()) {
      const sum = follows
        ? (this.#sums[index] as number) + this.#move(symbol, tick) - this.#move(symbol, tick - WINDOW)
        : this.#sum(symbol, tick);
      this.#sums[index] = sum;
      this.#values[index] = Math.round((initialPrices[symbol] * (1_000_000 + sum)) / 10_000) / 100;
    }
  }

  #sum(symbol: PriceSymbol, tick: number): number {
    let sum = 0;
    for (let each = tick - WINDOW + 1; each <= tick; each++) sum += this.#move(symbol, each);
    return sum;
  }

  /** What a tick adds to a price, in millionths of the initial one. */
  #move(symbol: PriceSymbol, tick: number): number {
    const digest = createHash('sha256').update(`${this.#seed} ${symbol} ${tick}`).digest();
    return (digest.readUInt32BE() % (2 * LARGEST_MOVE + 1)) - LARGEST_MOVE;
  }
}
