import type { Change } from './quote.ts';

const money = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
const plain = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const signed = new Intl.NumberFormat('en-US', {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
  signDisplay: 'exceptZero',
});
const percent = new Intl.NumberFormat('en-US', {
  style: 'percent',
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
  signDisplay: 'exceptZero',
});
const time = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const shortTime = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' });

/** Formats a price as `$42,013.37`. */
export const formatPrice = (price: number): string => money.format(price);

/** Formats a price on a chart's axis as `42,013.37`. */
export const formatAxisPrice = (price: number): string => plain.format(price);

/** Formats the amount of a change as `+12.30`, `−12.30` or `0.00`, with a minus sign as wide as the plus. */
export const formatAmount = ({ amount }: Change): string => signed.format(amount).replace('-', '−');

/** Formats the share of a change as `+0.03%`. */
export const formatShare = ({ share }: Change): string => percent.format(share).replace('-', '−');

/** Formats a Unix time as `14:03:22` in the user's time zone. */
export const formatTime = (second: number): string => time.format(second * 1000);

/** Formats a Unix time as `14:03` in the user's time zone. */
export const formatShortTime = (second: number): string => shortTime.format(second * 1000);

/** Formats a round trip time as `0.8 ms` or `24 ms`. */
export const formatRoundTrip = (milliseconds: number): string =>
  `${milliseconds < 9.95 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
