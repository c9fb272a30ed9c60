import { part, stamp } from '../shared/dom.ts';
import { formatShare, formatTime, type PriceFormat } from './format.ts';
import { type Point, PriceChart } from './price-chart.ts';
import type { Change, Quote } from './quote.ts';

const NAMES: Readonly<Record<string, string>> = { 'BTC-USD': 'Bitcoin', 'ETH-USD': 'Ethereum', 'SOL-USD': 'Solana' };
const WORDS = { up: 'up', down: 'down', none: 'unchanged' } as const;

/** Card for one symbol, with its price, changes and chart. */
export class PriceCard {
  readonly element = stamp('price-card');
  readonly #price = part(this.element, 'price', HTMLElement);
  readonly #opening = part(this.element, 'opening', HTMLElement);
  readonly #minute = part(this.element, 'minute', HTMLElement);
  readonly #high = part(this.element, 'high', HTMLElement);
  readonly #low = part(this.element, 'low', HTMLElement);
  readonly #readout = part(this.element, 'readout', HTMLElement);
  readonly #slider = part(this.element, 'chart', HTMLElement);
  readonly #chart = new PriceChart(this.#slider, (point) => this.#read(point));
  #caption = '';
  #format: PriceFormat;

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

  /** Shows the current, highest and lowest price, and the changes. */
  renderFigures(quote: Quote): void {
    const { format } = quote;
    this.#format = format;
    write(this.#price, format.price(quote.price));
    write(this.#high, format.price(quote.high));
    write(this.#low, format.price(quote.low));
    writeChange(this.#opening, quote.changeSinceOpening, format);
    writeChange(this.#minute, quote.changeOverMinute, format);
  }

  /** Shows a chart of the `length` seconds that end at the Unix time `second`. */
  renderChart({ history }: Quote, second: number, length: number): void {
    const from = second - length;
    this.#caption = length === 60 ? 'Last minute' : `Last ${length / 60} minutes`;
    this.#slider.setAttribute('aria-valuemin', String(from));
    this.#slider.setAttribute('aria-valuemax', String(second));
    this.#chart.render(history.between(from, second), from, second, this.#format);
    if (this.#readout.dataset.point === undefined) this.#read(undefined);
  }

  repaint(): void {
    this.#chart.repaint();
  }

  #read(point: Point | undefined): void {
    if (point === undefined) {
      delete this.#readout.dataset.point;
      write(this.#readout, this.#caption);
      this.#slider.setAttribute('aria-valuenow', this.#slider.getAttribute('aria-valuemax') ?? '0');
      this.#slider.setAttribute('aria-valuetext', 'no point chosen');
      return;
    }
    const text = `${formatTime(point.second)}  ${this.#format.price(point.price)}`;
    this.#readout.dataset.point = String(point.second);
    write(this.#readout, text);
    this.#slider.setAttribute('aria-valuenow', String(point.second));
    this.#slider.setAttribute('aria-valuetext', text);
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
