import type { TickerSymbol } from '../../workers/symbols.ts';

export const HISTORY_SECONDS = 900;

/**
 * Response of `GET /prices/history`. `timestamps` and the price array of each symbol have one element per tick, oldest
 * first.
 */
export interface PriceHistoryAnswer {
  interval_ms: number;
  /** Unix times in seconds, strictly ascending. */
  timestamps: number[];
  prices: Record<string, number[]>;
}

/** Ticks of the last {@link HISTORY_SECONDS}, in a ring buffer with at most one tick per second. */
export class PriceHistory {
  readonly #symbols: readonly TickerSymbol[];
  readonly #intervalMs: number;
  readonly #capacity: number;
  readonly #timestamps: Float64Array;
  /** Prices of all ticks: one price per symbol for each tick. */
  readonly #prices: Float64Array;
  #end = 0;
  #size = 0;

  constructor(symbols: readonly TickerSymbol[], intervalMs: number) {
    this.#symbols = symbols;
    this.#intervalMs = intervalMs;
    this.#capacity = Math.ceil((HISTORY_SECONDS * 1000) / Math.max(intervalMs, 1000));
    this.#timestamps = new Float64Array(this.#capacity);
    this.#prices = new Float64Array(this.#capacity * symbols.length);
  }

  get size(): number {
    return this.#size * this.#symbols.length;
  }

  /**
   * Adds a tick, replacing ticks of the same second, and of later seconds if the clock was set back.
   *
   * @param message JSON text that contains the tick's timestamp
   * @param prices one price per symbol, in the order of the symbols
   */
  add(message: string, prices: readonly number[]): void {
    const timestamp = Number(/"timestamp":(\d{1,11})\b/.exec(message)?.[1]);
    if (Number.isNaN(timestamp)) return;
    while (this.#size > 0 && (this.#timestamps[this.#slot(this.#size - 1)] as number) >= timestamp)
      this.#removeNewest();
    this.#timestamps[this.#end] = timestamp;
    this.#prices.set(prices.slice(0, this.#symbols.length), this.#end * this.#symbols.length);
    this.#end = (this.#end + 1) % this.#capacity;
    this.#size = Math.min(this.#size + 1, this.#capacity);
  }

  /** Returns the ticks of the last `seconds` seconds before `now` (Unix time in seconds). */
  last(seconds: number, now: number): PriceHistoryAnswer {
    const slots = Array.from({ length: this.#size }, (_, index) => this.#slot(index)).filter(
      (slot) => (this.#timestamps[slot] as number) > now - seconds,
    );
    const count = this.#symbols.length;
    const column = (index: number) => slots.map((slot) => this.#prices[slot * count + index] as number);
    return {
      interval_ms: this.#intervalMs,
      timestamps: slots.map((slot) => this.#timestamps[slot] as number),
      prices: Object.fromEntries(this.#symbols.map(({ symbol }, index) => [symbol, column(index)])),
    };
  }

  /** Returns the ring buffer slot of the tick at `index`. The oldest tick has index 0. */
  #slot(index: number): number {
    return (this.#end - this.#size + index + this.#capacity) % this.#capacity;
  }

  #removeNewest(): void {
    this.#end = (this.#end - 1 + this.#capacity) % this.#capacity;
    this.#size--;
  }
}
