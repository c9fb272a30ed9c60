/** Price change. `share` is `amount` divided by the price before the change. */
export interface Change {
  amount: number;
  share: number;
  direction: 'up' | 'down' | 'none';
}

const percent = numberFormat(2, { style: 'percent', signDisplay: 'exceptZero' });
const MIN_SHARE = 0.00005;
const MAX_STEP_DECIMALS = 12;

/** Formats the prices of one symbol. The currency is the three-letter suffix of a symbol such as `BTC-USD`. */
export class PriceFormat {
  readonly #money: Intl.NumberFormat;
  readonly #plain: Intl.NumberFormat;
  readonly #axis = new Map<number, Intl.NumberFormat>();
  readonly #signed: Intl.NumberFormat;

  constructor(symbol: string, decimals: number) {
    const currency = /-([A-Z]{3})$/.exec(symbol)?.[1];
    this.#plain = numberFormat(decimals);
    this.#signed = numberFormat(decimals, { signDisplay: 'exceptZero' });
    this.#money = currency === undefined ? this.#plain : numberFormat(decimals, { style: 'currency', currency });
  }

  /** Formats a price as `$42,013.37`, or as `42,013.37` if the symbol has no currency. */
  price(price: number): string {
    return this.#money.format(price);
  }

  /** Formats a price as `42,013.37`. */
  plainPrice(price: number): string {
    return this.#plain.format(price);
  }

  /** Formats an axis label with the decimals that multiples of `step` need: `42,013`, `42,013.50` or `0.0125`. */
  axisPrice(price: number, step: number): string {
    const needed = Math.ceil(-Math.log10(step) - 1e-9);
    const decimals = needed <= 0 ? 0 : Math.min(Math.max(2, needed), MAX_STEP_DECIMALS);
    const format = this.#axis.get(decimals) ?? numberFormat(decimals);
    this.#axis.set(decimals, format);
    return format.format(price);
  }

  /** Formats the amount of a price change as `+12.30`, `−12.30` or `0.00`. */
  amount({ amount }: Change): string {
    return this.#signed.format(amount).replace('-', '−');
  }
}

/** Formats a relative change as `+0.03%`, or as `+<0.01%` if a smaller change would be rounded to zero. */
export function formatShare({ share }: Change): string {
  const isSmall = share !== 0 && Math.abs(share) < MIN_SHARE;
  return isSmall ? `${share < 0 ? '−' : '+'}<0.01%` : percent.format(share).replace('-', '−');
}

/** Formats a Unix time as `14:03:22` in the user's time zone. */
export const formatTime = timeFormat('en-GB', { timeStyle: 'medium' });

/** Formats a Unix time as `2026-03-01 14:03:22` in the user's time zone. */
export const formatMoment = timeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium' });

/** Formats a Unix time as `14:03:22`, with its date if that is not the date of another Unix time. */
export function formatTimeBefore(second: number, other: number): string {
  const moment = formatMoment(second);
  return moment.slice(0, 10) === formatMoment(other).slice(0, 10) ? formatTime(second) : moment;
}

/** Formats a Unix time as `14:03` in the user's time zone. */
export const formatShortTime = timeFormat('en-GB', { timeStyle: 'short' });

function numberFormat(decimals: number, options: Intl.NumberFormatOptions = {}): Intl.NumberFormat {
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return new Intl.NumberFormat('en-US', { ...digits, ...options });
}

function timeFormat(locale: string, options: Intl.DateTimeFormatOptions): (second: number) => string {
  const format = new Intl.DateTimeFormat(locale, options);
  return (second) => format.format(second * 1000);
}

/** Formats a duration as `0.8 ms`, `24 ms` or `11.0 s`. */
export function formatMilliseconds(milliseconds: number): string {
  if (milliseconds >= 9_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds < 9.95 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
}

/** Formats a range or the length of a candle as `5 s`, `15 min` or `1 h`. */
export function formatLength(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3_600 ? `${seconds / 60} min` : `${seconds / 3_600} h`;
}
