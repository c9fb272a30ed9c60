import { PriceCard } from './price-card.ts';
import { Quote } from './quote.ts';
import type { Price } from './stream.ts';

interface Entry {
  quote: Quote;
  card: PriceCard;
}

/** Maximum number of symbols shown as full-size cards. */
const MAX_ROOMY = 3;
/** Maximum number of symbols shown as smaller cards. More symbols are shown as rows. */
const MAX_COMPACT = 12;
/** Margin around the viewport within which charts are drawn before the user scrolls to them. */
const DRAWN_MARGIN = '50%';

/**
 * Price cards of all symbols. Prices are stored immediately but drawn at most once per frame, and not while paused. With many
 * symbols, only charts near the viewport are drawn.
 */
export class Board {
  readonly #element: HTMLElement;
  readonly #entries = new Map<string, Entry>();
  #windowSeconds: number;
  #pausedAt: number | undefined;
  #frame: number | undefined;
  /** Upper-case filter text. A card is visible only if its symbol contains the text. */
  #filter = '';
  readonly #nearCards = new Set<Element>();
  readonly #observer: IntersectionObserver;

  constructor(element: HTMLElement, windowSeconds: number) {
    this.#element = element;
    this.#windowSeconds = windowSeconds;
    this.#observer = new IntersectionObserver((changes) => this.#onNearer(changes), { rootMargin: DRAWN_MARGIN });
    const repaint = () => {
      for (const { card } of this.#entries.values()) card.repaint();
    };
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
    matchMedia('(forced-colors: active)').addEventListener('change', repaint);
  }

  /** Quotes of the symbols that match the filter. */
  get quotes(): Quote[] {
    return [...this.#entries.values()].filter(({ card }) => !card.element.hidden).map(({ quote }) => quote);
  }

  /** Whether there are enough symbols for a filter to be useful. */
  get isLong(): boolean {
    return this.#entries.size > MAX_COMPACT;
  }

  take(prices: Price[]): void {
    const isNew = (price: Price) => !this.#entries.has(price.symbol);
    for (const price of prices.filter(isNew).sort((a, b) => a.symbol.localeCompare(b.symbol))) this.#add(price);
    for (const price of prices) this.#entries.get(price.symbol)?.quote.update(price);
    if (this.#pausedAt === undefined) this.#schedule();
  }

  /** Sets the time span that the charts show, in seconds. */
  set windowSeconds(seconds: number) {
    this.#windowSeconds = seconds;
    this.#schedule();
  }

  /** Shows only the symbols that contain `text`, ignoring case. */
  set filter(text: string) {
    this.#filter = text.trim().toUpperCase();
    for (const [symbol, { card }] of this.#entries) card.element.hidden = !symbol.includes(this.#filter);
    this.#schedule();
  }

  /**
   * Stops drawing but keeps storing prices.
   *
   * @returns Unix time of the newest price, or undefined before the first price
   */
  pause(): number | undefined {
    this.#pausedAt = this.#newest;
    return this.#pausedAt;
  }

  resume(): void {
    this.#pausedAt = undefined;
    this.#schedule();
  }

  get #newest(): number | undefined {
    const seconds = Array.from(this.#entries.values(), ({ quote }) => quote.second);
    return seconds.length === 0 ? undefined : Math.max(...seconds);
  }

  #add(price: Price): void {
    const quote = new Quote(price);
    const card = new PriceCard(quote);
    card.element.hidden = !price.symbol.includes(this.#filter);
    this.#entries.set(price.symbol, { quote, card });
    this.#element.append(card.element);
    this.#observer.observe(card.element);
    const { size } = this.#entries;
    this.#element.dataset.density = size <= MAX_ROOMY ? 'roomy' : size <= MAX_COMPACT ? 'compact' : 'dense';
  }

  #onNearer(changes: IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of changes) {
      if (isIntersecting) this.#nearCards.add(target);
      else this.#nearCards.delete(target);
    }
    this.#schedule();
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
    for (const { quote, card } of this.#entries.values()) {
      if (this.#pausedAt === undefined) card.renderFigures(quote);
      if (!this.isLong || this.#nearCards.has(card.element)) card.renderChart(quote, second, this.#windowSeconds);
    }
  }
}
