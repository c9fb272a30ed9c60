import { History } from './history.ts';
import type { Price } from './stream.ts';

/** Change of a price. `share` is the amount divided by the price before the change. */
export interface Change {
  amount: number;
  share: number;
  direction: 'up' | 'down' | 'none';
}

/** Current, highest and lowest price of one symbol since the page was opened, and its history. */
export class Quote {
  readonly symbol: string;
  readonly history = new History();
  price: number;
  /** Unix time of the newest price. */
  second: number;
  high: number;
  low: number;
  readonly #opening: number;

  constructor({ symbol, price, timestamp }: Price) {
    this.symbol = symbol;
    this.price = this.high = this.low = this.#opening = price;
    this.second = timestamp;
    this.history.add(timestamp, price);
  }

  update({ price, timestamp }: Price): void {
    this.price = price;
    this.second = timestamp;
    this.high = Math.max(this.high, price);
    this.low = Math.min(this.low, price);
    this.history.add(timestamp, price);
  }

  get changeSinceOpening(): Change {
    return change(this.#opening, this.price);
  }

  /** Change over the last minute. Undefined until the history is a minute long. */
  get changeOverMinute(): Change | undefined {
    const before = this.history.at(this.second - 60);
    return before === undefined ? undefined : change(before, this.price);
  }
}

/** Returns the change from one price to another. Its amount is rounded to cents. */
export function change(from: number, to: number): Change {
  const amount = Math.round((to - from) * 100) / 100;
  return { amount, share: amount / from, direction: amount > 0 ? 'up' : amount < 0 ? 'down' : 'none' };
}
