import { cssColour } from '../shared/canvas-colours.ts';
import { part, stamp } from '../shared/dom.ts';
import { toCandles } from './candles.ts';
import { type Change, formatShare, formatTime, type PriceFormat } from './format.ts';
import { type Point, PriceChart } from './price-chart.ts';
import type { Quote } from './quote.ts';

const NAMES: Readonly<Record<string, string>> = { 'BTC-USD': 'Bitcoin', 'ETH-USD': 'Ethereum', 'SOL-USD': 'Solana' };
export interface ChartSettings {
  windowSeconds: number;
  /** Length of a candle in seconds, or 0 for a line chart. */
  candleSeconds: number;
  /** Minimum seconds between two prices that are shown as a gap. */
  gapSeconds: number;
}

const TINT_MS = 400;
const reducedMotion = matchMedia('(prefers-reduced-motion: reduce)');

const WORDS = { up: 'up', down: 'down', none: 'unchanged' } as const;

export class PriceCard {
  readonly element = stamp('price-card');
  readonly #price = part(this.element, 'price', HTMLElement);
  readonly #opening = part(this.element, 'opening', HTMLElement);
  readonly #minute = part(this.element, 'minute', HTMLElement);
  readonly #high = part(this.element, 'high', HTMLElement);
  readonly #low = part(this.element, 'low', HTMLElement);
  readonly #readout = part(this.element, 'readout', HTMLElement);
  readonly #candleReadout = part(this.element, 'candle-readout', HTMLElement);
  readonly #slider = part(this.element, 'chart', HTMLElement);
  readonly #chart = new PriceChart(this.#slider, (point) => this.#read(point));
  #caption = '';
  #format: PriceFormat;
  #shown: number | undefined;

  constructor({ symbol, format }: Quote) {
    this.#format = format;
    const heading = part(this.element, 'symbol', HTMLElement);
    heading.textContent = symbol;
    heading.id = `symbol-${symbol}`;
    this.element.setAttribute('aria-labelledby', heading.id);
    this.element.dataset.symbol = symbol;
    part(this.element, 'name', HTMLElement).textContent = NAMES[symbol] ?? '';
    this.#slider.setAttribute('aria-label', `Crosshair in the chart of ${symbol}`);
  }

  renderFigures(quote: Quote, gapSeconds: number): void {
    const { format } = quote;
    this.#format = format;
    this.#tint(quote.price);
    write(this.#price, format.price(quote.price));
    writeChange(this.#opening, quote.changeSinceOpening, format);
    writeChange(this.#minute, quote.changeOverMinute(gapSeconds), format);
  }

  /** Draws the chart up to the Unix time `to`, and shows the highest and lowest visible price. */
  renderChart({ history }: Quote, to: number, { windowSeconds, candleSeconds, gapSeconds }: ChartSettings): void {
    // The time axis must end with the newest candle, which may end after `to`.
    const end = candleSeconds === 0 ? to : (Math.floor(to / candleSeconds) + 1) * candleSeconds;
    const from = end - windowSeconds;
    const span = windowSeconds === 60 ? 'minute' : `${windowSeconds / 60} minutes`;
    const candle = candleSeconds < 60 ? `${candleSeconds} s` : `${candleSeconds / 60} min`;
    this.#caption = `Last ${span}${candleSeconds === 0 ? '' : `, candles of ${candle}`}`;
    this.#candleReadout.hidden = candleSeconds === 0;
    this.#slider.setAttribute('aria-valuemin', String(from));
    this.#slider.setAttribute('aria-valuemax', String(end));
    const line = history.between(from, to, gapSeconds);
    const stretch = candleSeconds === 0 ? line : toCandles(line, candleSeconds, from);
    const format = this.#format;
    this.#chart.render({ from, to: end, stretch, last: line.prices.at(-1) ?? undefined, format });
    const visible = line.prices.filter((price, index) => price !== null && (line.seconds[index] ?? 0) >= from);
    write(this.#high, visible.length === 0 ? '–' : format.price(Math.max(...(visible as number[]))));
    write(this.#low, visible.length === 0 ? '–' : format.price(Math.min(...(visible as number[]))));
    if (this.#readout.dataset.point === undefined) this.#read(undefined);
  }

  /** Colours the price for a moment if it has changed. */
  #tint(price: number): void {
    const before = this.#shown ?? price;
    this.#shown = price;
    if (price === before || reducedMotion.matches) return;
    const colour = cssColour(this.#price, price > before ? '--up' : '--down')();
    this.#price.animate({ color: [colour, getComputedStyle(this.#price).color] }, TINT_MS);
  }

  repaint(): void {
    this.#chart.repaint();
  }

  #read(point: Point | undefined): void {
    if (point === undefined) {
      delete this.#readout.dataset.point;
      write(this.#readout, this.#caption);
      write(this.#candleReadout, '');
      this.#slider.setAttribute('aria-valuenow', this.#slider.getAttribute('aria-valuemax') ?? '0');
      this.#slider.setAttribute('aria-valuetext', 'no point chosen');
      return;
    }
    const { second, price, candle } = point;
    const text = `${formatTime(second)}  ${this.#format.price(price)}`;
    const plain = (each: number) => this.#format.plainPrice(each);
    const others =
      candle === undefined ? '' : `open ${plain(candle.open)}  high ${plain(candle.high)}  low ${plain(candle.low)}`;
    this.#readout.dataset.point = String(second);
    write(this.#readout, text);
    write(this.#candleReadout, others);
    this.#slider.setAttribute('aria-valuenow', String(second));
    this.#slider.setAttribute('aria-valuetext', others === '' ? text : `${text}, ${others}`);
  }
}

function writeChange(element: HTMLElement, change: Change | undefined, format: PriceFormat): void {
  const direction = change?.direction ?? 'unknown';
  element.dataset.direction = direction;
  part(element, 'arrow', SVGUseElement).setAttribute('href', `#arrow-${direction}`);
  write(
    part(element, 'direction', HTMLElement),
    change === undefined ? 'known after a minute' : WORDS[change.direction],
  );
  write(part(element, 'amount', HTMLElement), change === undefined ? '' : format.amount(change));
  write(part(element, 'share', HTMLElement), change === undefined ? 'after 1 min' : formatShare(change));
}

function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
