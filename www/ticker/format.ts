/** Price change. `share` is `amount` divided by the price before the change. */
export interface Change {
  amount: number;
  share: number;
  direction: 'up' | 'down' | 'none';
}

const percent = new Intl.NumberFormat('en-US', {
  style: 'percent',
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
  signDisplay: 'exceptZero',
});
const MIN_SHARE = 0.00005;
const time = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const shortTime = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' });

const MAX_STEP_DECIMALS = 12;

/** Formats the prices of one symbol. The currency is the three-letter suffix of a symbol such as `BTC-USD`. */
export class PriceFormat {
  readonly #money: Intl.NumberFormat;
  readonly #plain: Intl.NumberFormat;
  readonly #axis = new Map<number, Intl.NumberFormat>();
  readonly #signed: Intl.NumberFormat;

  constructor(symbol: string, decimals: number) {
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    const currency = /-([A-Z]{3})$/.exec(symbol)?.[1];
    this.#plain = new Intl.NumberFormat('en-US', digits);
    this.#signed = new Intl.NumberFormat('en-US', { ...digits, signDisplay: 'exceptZero' });
    this.#money =
      currency === undefined ? this.#plain : new Intl.NumberFormat('en-US', { ...digits, style: 'currency', currency });
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
    let format = this.#axis.get(decimals);
    if (format === undefined) {
      format = new Intl.NumberFormat('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
      this.#axis.set(decimals, format);
    }
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
export const formatTime = (second: number): string => time.format(second * 1000);

/** Formats a Unix time as `14:03` in the user's time zone. */
export const formatShortTime = (second: number): string => shortTime.format(second * 1000);

/** Formats a duration as `0.8 ms`, `24 ms` or `11.0 s`. */
export function formatMilliseconds(milliseconds: number): string {
  if (milliseconds >= 9_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds < 9.95 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
}
