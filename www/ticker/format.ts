import type { Change } from './quote.ts';

const percent = new Intl.NumberFormat('en-US', {
  style: 'percent',
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
  signDisplay: 'exceptZero',
});
const time = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const shortTime = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' });

/** Formats prices of one symbol. In a symbol such as `BTC-USD`, the three letters after the hyphen are the currency. */
export class PriceFormat {
  readonly #money: Intl.NumberFormat;
  readonly #plain: Intl.NumberFormat;
  readonly #signed: Intl.NumberFormat;

  constructor(symbol: string, decimals: number) {
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    const currency = /-([A-Z]{3})$/.exec(symbol)?.[1];
    this.#plain = new Intl.NumberFormat('en-US', digits);
    this.#signed = new Intl.NumberFormat('en-US', { ...digits, signDisplay: 'exceptZero' });
    this.#money =
      currency === undefined ? this.#plain : new Intl.NumberFormat('en-US', { ...digits, style: 'currency', currency });
  }

  /** Formats a price as `$42,013.37`, or as `42,013.37` if the symbol does not name a currency. */
  price(price: number): string {
    return this.#money.format(price);
  }

  /** Formats a price for a chart's axis as `42,013.37`. */
  axisPrice(price: number): string {
    return this.#plain.format(price);
  }

  /** Formats the amount of a change as `+12.30`, `−12.30` or `0.00`, with a minus sign as wide as the plus sign. */
  amount({ amount }: Change): string {
    return this.#signed.format(amount).replace('-', '−');
  }
}

/** Formats a relative change as `+0.03%`. */
export const formatShare = ({ share }: Change): string => percent.format(share).replace('-', '−');

/** Formats a Unix time as `14:03:22` in the user's time zone. */
export const formatTime = (second: number): string => time.format(second * 1000);

/** Formats a Unix time as `14:03` in the user's time zone. */
export const formatShortTime = (second: number): string => shortTime.format(second * 1000);

/** Formats a round trip time as `0.8 ms` or `24 ms`. */
export const formatRoundTrip = (milliseconds: number): string =>
  `${milliseconds < 9.95 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
