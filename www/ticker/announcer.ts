import { formatShare } from './format.ts';
import type { Quote } from './quote.ts';

const INTERVAL_MS = 30_000;
const MAX_PRICES = 8;

/** Updates a summary of the prices for screen readers every 30 seconds while `on` is true. */
export class Announcer {
  readonly #region: HTMLElement;
  readonly #quotes: () => Quote[];
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(region: HTMLElement, quotes: () => Quote[]) {
    this.#region = region;
    this.#quotes = quotes;
  }

  set on(on: boolean) {
    clearInterval(this.#timer);
    this.#region.textContent = '';
    if (!on) return;
    this.#say();
    this.#timer = setInterval(() => this.#say(), INTERVAL_MS);
  }

  #say(): void {
    const quotes = this.#quotes();
    const isShort = quotes.length <= MAX_PRICES;
    const announced = isShort ? quotes : quotes.toSorted((a, b) => movement(b) - movement(a)).slice(0, MAX_PRICES);
    const others = isShort ? [] : [`And ${quotes.length - MAX_PRICES} others.`];
    this.#region.textContent = [...announced.map(summary), ...others].join(' ');
  }
}

function movement(quote: Quote): number {
  return Math.abs(quote.changeSinceOpening.share);
}

/** Returns a sentence such as `BTC-USD $42,013.37, up 0.03% since the page opened.` */
function summary(quote: Quote): string {
  const change = quote.changeSinceOpening;
  const share = formatShare(change).replace(/^[+−]/, '').replace('<', 'less than ');
  const words = change.direction === 'none' ? 'unchanged' : `${change.direction} ${share}`;
  return `${quote.symbol} ${quote.format.price(quote.price)}, ${words} since the page opened.`;
}
