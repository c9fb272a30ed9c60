import { PriceCard } from './price-card.ts';
import { Quote } from './quote.ts';
import type { Price } from './stream.ts';

/** The price cards of all symbols. Prices are stored at once, but drawn at most once per frame, and not while paused. */
export class Board {
  readonly #element: HTMLElement;
  readonly #cards = new Map<string, { quote: Quote; card: PriceCard }>();
  #windowSeconds: number;
  #pausedAt: number | undefined;
  #frame: number | undefined;

  constructor(element: HTMLElement, windowSeconds: number) {
    this.#element = element;
    this.#windowSeconds = windowSeconds;
    const repaint = () => {
      for (const { card } of this.#cards.values()) card.repaint();
    };
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
    matchMedia('(forced-colors: active)').addEventListener('change', repaint);
  }

  get quotes(): Quote[] {
    return [...this.#cards.values()].map(({ quote }) => quote);
  }

  take(prices: Price[]): void {
    const isNew = (price: Price) => !this.#cards.has(price.symbol);
    for (const price of prices.filter(isNew).sort((a, b) => a.symbol.localeCompare(b.symbol))) {
      const quote = new Quote(price);
      const card = new PriceCard(quote);
      this.#cards.set(price.symbol, { quote, card });
      this.#element.append(card.element);
    }
    for (const price of prices) this.#cards.get(price.symbol)?.quote.update(price);
    if (this.#pausedAt === undefined) this.#schedule();
  }

  /** Sets the time span that the charts show, in seconds. */
  set windowSeconds(seconds: number) {
    this.#windowSeconds = seconds;
    this.#schedule();
  }

  /** Stops drawing, while prices are still stored. @returns Unix time of the newest price, undefined if there is none */
  pause(): number | undefined {
    this.#pausedAt = this.#newest;
    return this.#pausedAt;
  }

  resume(): void {
    this.#pausedAt = undefined;
    this.#schedule();
  }

  get #newest(): number | undefined {
    const seconds = this.quotes.map(({ second }) => second);
    return seconds.length === 0 ? undefined : Math.max(...seconds);
  }

  #schedule(): void {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.#draw();
    });
  }

  #draw(): void {
    const second = this.#pausedAt ?? this.#newest;
    if (second === undefined) return;
    for (const { quote, card } of this.#cards.values()) {
      if (this.#pausedAt === undefined) card.renderFigures(quote);
      card.renderChart(quote, second, this.#windowSeconds);
    }
  }
}
