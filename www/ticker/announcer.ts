import { formatPrice, formatShare } from './format.ts';
import type { Quote } from './quote.ts';

const INTERVAL_MS = 30_000;

/** Announces a summary of the prices to screen readers at intervals, without interrupting them, if the user enables it. */
export class Announcer {
  readonly #region: HTMLElement;
  readonly #quotes: () => Quote[];
  #timer: ReturnType<typeof setInterval> | undefined;

  /** @param quotes returns the quotes to announce; if empty, nothing is announced */
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
    this.#region.textContent = this.#quotes().map(summary).join(' ');
  }
}

/** Returns a sentence such as `BTC-USD $42,013.37, up 0.03% since the page opened.` */
function summary(quote: Quote): string {
  const change = quote.changeSinceOpening;
  const words = change.direction === 'none' ? 'unchanged' : `${change.direction} ${formatShare(change).slice(1)}`;
  return `${quote.symbol} ${formatPrice(quote.price)}, ${words} since the page opened.`;
}
