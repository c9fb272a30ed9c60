import type { Price } from '../client/tick-stream.ts';
import { type Change, PriceFormat } from './format.ts';
import { DAY, History, type Point, RECENT } from './history.ts';

const MIN_DECIMALS = 2;
const MAX_DECIMALS = 8;
const MINUTE = 60;

export class Quote {
  readonly symbol: string;
  readonly #recent = new History(RECENT, 1);
  readonly #day = new History(DAY, MINUTE);
  /** Returns the lower bound of the least interval between two prices that counts as a gap, in seconds. */
  readonly #leastGap: () => number;
  latest: Price;
  /** Price on the page, older than `latest` while the page is paused. */
  shown: Price;
  /** Format with as many decimals as the most precise price so far. */
  format: PriceFormat;
  #decimals = MIN_DECIMALS;

  constructor(price: Price, leastGap: () => number) {
    this.symbol = price.symbol;
    this.#leastGap = leastGap;
    this.latest = this.shown = price;
    this.format = new PriceFormat(price.symbol, this.#decimals);
    this.update(price);
  }

  update(price: Price): this {
    this.latest = price;
    this.#fit(price.price);
    this.#recent.add(price.timestamp, price.price);
    const minute = Math.floor(price.timestamp / MINUTE);
    if (Math.floor((this.#day.newest ?? 0) / MINUTE) !== minute) this.#day.add(price.timestamp, price.price);
    return this;
  }

  /** Adds past prices. @param length {@link RECENT}, or {@link DAY} for one price a minute */
  fill(length: number, seconds: readonly number[], prices: readonly number[]): void {
    for (const price of prices) this.#fit(price);
    (length === DAY ? this.#day : this.#recent).fill(seconds, prices);
  }

  /** Unix time of the oldest price of the last day. */
  get oldest(): number {
    const { timestamp } = this.latest;
    const firsts = [this.#day, this.#recent].map((history) => history.firstFrom(timestamp - DAY)?.second ?? timestamp);
    return Math.min(...firsts);
  }

  /**
   * Returns the prices in a span of Unix times, one a minute if it begins before {@link RECENT}, and the least interval
   * between two prices that counts as a gap, in seconds.
   */
  between(from: number, to: number): { points: Point[]; gap: number } {
    const history = this.#historyFrom(from);
    const points = history.between(from, to);
    const { timestamp: second, price } = this.shown;
    if (second <= to && second > (points.at(-1)?.second ?? 0)) points.push({ second, price });
    return { points, gap: history.gap(this.#leastGap()) };
  }

  /**
   * Returns the change of the shown price over the last `seconds`, or, if the price at their start is unknown, `since`
   * the Unix time of the first known price after it.
   */
  changeOver(seconds: number): Change & { since: number | undefined } {
    const { price, timestamp } = this.shown;
    const start = timestamp - seconds;
    const history = this.#historyFrom(start);
    const before = history.at(start, this.#leastGap());
    const first = history.firstFrom(start) ?? { second: timestamp, price };
    const since = before === undefined ? first.second : undefined;
    return { ...change(before ?? first.price, price, this.#decimals), since };
  }

  #historyFrom(second: number): History {
    return second >= this.shown.timestamp - RECENT ? this.#recent : this.#day;
  }

  #fit(price: number): void {
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
