import type { Price } from '../client/tick-reader.ts';
import { type Change, PriceFormat } from './format.ts';
import { History } from './history.ts';

const MIN_DECIMALS = 2;
const MAX_DECIMALS = 8;

export class Quote {
  readonly symbol: string;
  readonly history = new History();
  price: number;
  /** Unix time of the newest price. */
  second: number;
  /** Format with as many decimals as the most precise price so far. */
  format: PriceFormat;
  #decimals = MIN_DECIMALS;
  readonly #opening: number;

  constructor({ symbol, price, timestamp }: Price) {
    this.symbol = symbol;
    this.price = this.#opening = price;
    this.second = timestamp;
    this.format = new PriceFormat(symbol, this.#decimals);
    this.#show(price);
    this.history.add(timestamp, price);
  }

  update({ price, timestamp }: Price): void {
    this.price = price;
    this.second = timestamp;
    this.#show(price);
    this.history.add(timestamp, price);
  }

  get changeSinceOpening(): Change {
    return change(this.#opening, this.price, this.#decimals);
  }

  fill(seconds: readonly number[], prices: readonly number[]): void {
    for (const price of prices) this.#show(price);
    this.history.fill(seconds, prices);
  }

  /** Returns the change over the last minute, or undefined if the price one minute ago is unknown. */
  changeOverMinute(gap: number): Change | undefined {
    const before = this.history.at(this.second - 60, gap);
    return before === undefined ? undefined : change(before, this.price, this.#decimals);
  }

  #show(price: number): void {
    const decimals = decimalsOf(price);
    if (decimals <= this.#decimals) return;
    this.#decimals = decimals;
    this.format = new PriceFormat(this.symbol, decimals);
  }
}

/** Returns the change from one price to another, with the amount rounded to `decimals` decimals. */
export function change(from: number, to: number, decimals = MIN_DECIMALS): Change {
  const unitsPerOne = 10 ** decimals;
  const amount = Math.round((to - from) * unitsPerOne) / unitsPerOne;
  return { amount, share: amount / from, direction: amount > 0 ? 'up' : amount < 0 ? 'down' : 'none' };
}

function decimalsOf(price: number): number {
  const [digits = '', exponent = '0'] = String(price).split('e');
  const decimals = (digits.split('.')[1]?.length ?? 0) - Number(exponent);
  return Math.min(decimals, MAX_DECIMALS);
}
