import { onColourChange } from '../shared/canvas-colours.ts';
import type { PastPrices } from './past-prices.ts';
import { type ChartSettings, PriceCard } from './price-card.ts';
import { Quote } from './quote.ts';
import type { Price } from './stream.ts';
import type { TickInterval } from './tick-interval.ts';

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
/** Interval at which the charts are drawn while no price arrives. */
const IDLE_DRAW_MS = 1_000;

/**
 * Price cards of all symbols. Prices are stored immediately, but drawn at most once per animation frame and not while
 * paused. If there are many symbols, only charts near the viewport are drawn.
 */
export class Board {
  readonly #element: HTMLElement;
  readonly #entries = new Map<string, Entry>();
  readonly #interval: TickInterval;
  #settings: Pick<ChartSettings, 'windowSeconds' | 'candleSeconds'>;
  /** Time at which the newest prices arrived, in milliseconds since the epoch. */
  #arrivedAt = 0;
  #isRunning = false;
  /** Symbol of the card that was focused or clicked last. */
  #selected: string | undefined;
  #pausedAt: number | undefined;
  #frame: number | undefined;
  /** Upper-case filter text. A card is visible only if its symbol contains the text. */
  #filter = '';
  readonly #nearCards = new Set<Element>();
  readonly #observer: IntersectionObserver;

  /** @param interval tick interval, which determines the minimum length of a gap in the charts */
  constructor(
    element: HTMLElement,
    settings: Pick<ChartSettings, 'windowSeconds' | 'candleSeconds'>,
    interval: TickInterval,
  ) {
    this.#element = element;
    this.#settings = settings;
    this.#interval = interval;
    this.#observer = new IntersectionObserver((changes) => this.#onNearer(changes), { rootMargin: DRAWN_MARGIN });
    onColourChange(() => {
      for (const { card } of this.#entries.values()) card.repaint();
    });
    for (const type of ['focusin', 'pointerdown'])
      element.addEventListener(type, (event) => this.#select(event.target));
    setInterval(() => {
      if (this.#isRunning && this.#pausedAt === undefined && Date.now() - this.#arrivedAt >= IDLE_DRAW_MS)
        this.#schedule();
    }, IDLE_DRAW_MS);
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
    this.#arrivedAt = Date.now();
    if (this.#pausedAt === undefined) this.#schedule();
  }

  /** Adds past prices of the symbols on the board to their charts. */
  fill({ timestamps, prices }: PastPrices): void {
    for (const [symbol, { quote }] of this.#entries) {
      const past = prices[symbol];
      if (past !== undefined) quote.fill(timestamps, past);
    }
    this.#schedule();
  }

  /** Sets the time span and the kind of the charts. */
  set settings(settings: Pick<ChartSettings, 'windowSeconds' | 'candleSeconds'>) {
    this.#settings = settings;
    this.#schedule();
  }

  /** Sets whether the charts end at the current time. Otherwise they end at the newest price. */
  set isRunning(isRunning: boolean) {
    this.#isRunning = isRunning;
  }

  /** Quote of the selected symbol if that is visible, or else of the first visible symbol. */
  get selected(): Quote | undefined {
    return this.quotes.find(({ symbol }) => symbol === this.#selected) ?? this.quotes[0];
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
   * @returns Unix time at which the charts end, or undefined before the first price
   */
  pause(): number | undefined {
    this.#pausedAt = this.#now;
    return this.#pausedAt;
  }

  resume(): void {
    this.#pausedAt = undefined;
    this.#schedule();
  }

  /** Unix time at which the charts end, on the service's clock. Undefined before the first price. */
  get #now(): number | undefined {
    const seconds = Array.from(this.#entries.values(), ({ quote }) => quote.second);
    if (seconds.length === 0) return undefined;
    const newest = Math.max(...seconds);
    return this.#isRunning ? newest + Math.max(0, Math.floor((Date.now() - this.#arrivedAt) / 1000)) : newest;
  }

  #select(target: EventTarget | null): void {
    const card = target instanceof Element ? target.closest<HTMLElement>('.price-card') : null;
    if (card !== null) this.#selected = card.dataset.symbol;
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
    const to = this.#pausedAt ?? this.#now;
    if (to === undefined) return;
    const gapSeconds = this.#interval.staleAfterMs / 1000;
    for (const { quote, card } of this.#entries.values()) {
      if (this.#pausedAt === undefined) card.renderFigures(quote, gapSeconds);
      if (this.isLong && !this.#nearCards.has(card.element)) continue;
      card.renderChart(quote, to, { ...this.#settings, gapSeconds });
    }
  }
}
