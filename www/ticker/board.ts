import type { Price } from '../client/tick-reader.ts';
import type { PriceHistory } from '../client/ticker-client.ts';
import { onColourChange } from '../shared/canvas-colours.ts';
import { type ChartSettings, PriceCard } from './price-card.ts';
import { Quote } from './quote.ts';

interface Entry {
  quote: Quote;
  card: PriceCard;
}

const MAX_ROOMY = 3;
/** Maximum number of symbols shown as cards. More symbols are shown as rows. */
const MAX_COMPACT = 12;
const DRAWN_MARGIN = '50%';
const IDLE_DRAW_MS = 1_000;

/** Price cards of all symbols. New prices are drawn at most once per animation frame, and not while paused. */
export class Board {
  readonly #element: HTMLElement;
  readonly #entries = new Map<string, Entry>();
  readonly #staleAfterMs: () => number;
  #settings: Pick<ChartSettings, 'windowSeconds' | 'candleSeconds'>;
  #arrivedAt = 0;
  #isRunning = false;
  #selected: string | undefined;
  #pausedAt: number | undefined;
  #frame: number | undefined;
  #filter = '';
  readonly #nearCards = new Set<Element>();
  readonly #observer: IntersectionObserver;

  constructor(
    element: HTMLElement,
    settings: Pick<ChartSettings, 'windowSeconds' | 'candleSeconds'>,
    staleAfterMs: () => number,
  ) {
    this.#element = element;
    this.#settings = settings;
    this.#staleAfterMs = staleAfterMs;
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

  get quotes(): Quote[] {
    return [...this.#entries.values()].filter(({ card }) => !card.element.hidden).map(({ quote }) => quote);
  }

  get isLong(): boolean {
    return this.#entries.size > MAX_COMPACT;
  }

  take(prices: Price[]): void {
    const added = prices.filter(({ symbol }) => !this.#entries.has(symbol));
    for (const price of added.sort((a, b) => a.symbol.localeCompare(b.symbol))) this.#add(price);
    for (const price of prices) this.#entries.get(price.symbol)?.quote.update(price);
    this.#arrivedAt = Date.now();
    // The browser may lay out new cards before the next animation frame, so they are filled at once.
    if (added.length > 0) this.#draw();
    else if (this.#pausedAt === undefined) this.#schedule();
  }

  fill({ timestamps, prices }: PriceHistory): void {
    for (const [symbol, { quote }] of this.#entries) {
      const past = prices[symbol];
      if (past !== undefined) quote.fill(timestamps, past);
    }
    this.#schedule();
  }

  set settings(settings: Pick<ChartSettings, 'windowSeconds' | 'candleSeconds'>) {
    this.#settings = settings;
    this.#schedule();
  }

  /** If true, the charts end at the current time; if false, they end at the newest price. */
  set isRunning(isRunning: boolean) {
    this.#isRunning = isRunning;
  }

  /** Quote of the visible card that the user last focused or clicked, or else of the first visible card. */
  get selected(): Quote | undefined {
    return this.quotes.find(({ symbol }) => symbol === this.#selected) ?? this.quotes[0];
  }

  set filter(text: string) {
    this.#filter = text.trim().toUpperCase();
    for (const [symbol, { card }] of this.#entries) card.element.hidden = !symbol.includes(this.#filter);
    this.#schedule();
  }

  /** Stops drawing. @returns Unix time at which the charts end, or undefined before the first price */
  pause(): number | undefined {
    this.#pausedAt = this.#now;
    return this.#pausedAt;
  }

  resume(): void {
    this.#pausedAt = undefined;
    this.#schedule();
  }

  /** Unix time at which the charts end, by the service's clock. Undefined before the first price. */
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
    const gapSeconds = this.#staleAfterMs() / 1000;
    for (const { quote, card } of this.#entries.values()) {
      if (this.#pausedAt === undefined) card.renderFigures(quote, gapSeconds);
      if (this.isLong && !this.#nearCards.has(card.element)) continue;
      card.renderChart(quote, to, { ...this.#settings, gapSeconds });
    }
  }
}
