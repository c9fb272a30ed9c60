import uPlot from '/vendor/uplot.js';
import { cssColour } from '../shared/canvas-colours.ts';
import type { Candles } from './candles.ts';
import { chartAxes } from './chart-axes.ts';
import { paintCandles, paintLastPrice, paintNewest } from './chart-paint.ts';
import type { PriceFormat } from './format.ts';
import type { Stretch } from './history.ts';

export interface Point {
  second: number;
  price: number;
  /** Candle under the crosshair, whose closing price is `price`. */
  candle?: { open: number; high: number; low: number };
}

export interface ChartView {
  /** Unix times at the left and right edge of the chart. */
  from: number;
  to: number;
  stretch: Stretch & { candles?: Candles };
  /** Newest price, which may be older than `from`. */
  last: number | undefined;
  format: PriceFormat;
}

const MIN_REM_WITH_AXES = 5;

/** All charts share one crosshair. */
const CROSSHAIRS = uPlot.sync('prices');
const linePaths = uPlot.paths.linear?.();

/** Chart of one symbol's price over time, with a crosshair moved by mouse, touch or keyboard. */
export class PriceChart {
  readonly #host: HTMLElement;
  readonly #onPoint: (point: Point | undefined) => void;
  #plot: uPlot | undefined;
  #view: ChartView | undefined;
  /** Unix time of a crosshair placed by keyboard or touch. The crosshair keeps this time when the chart moves. */
  #pinned: number | undefined;
  #point: Point | undefined;
  #rem = 0;
  #hasAxes = true;

  constructor(host: HTMLElement, onPoint: (point: Point | undefined) => void) {
    this.#host = host;
    this.#onPoint = onPoint;
    new ResizeObserver(() => this.#fit()).observe(host);
    host.addEventListener('keydown', (event) => this.#onKey(event));
    host.addEventListener('blur', () => this.#pin(undefined));
    this.#followTouch();
  }

  render(view: ChartView): void {
    const isOtherKind = view.stretch.candles?.length !== this.#view?.stretch.candles?.length;
    this.#view = view;
    if (this.#plot === undefined) this.#fit();
    const { stretch, from } = view;
    this.#plot?.setData([stretch.seconds, stretch.prices]);
    const pinned = this.#pinned;
    if (pinned === undefined) return;
    const pin = () => this.#pin(isOtherKind ? undefined : Math.max(pinned, from));
    // uPlot applies new scales in a microtask, so the crosshair must be moved in a later microtask.
    queueMicrotask(() => queueMicrotask(pin));
  }

  repaint(): void {
    this.#plot?.redraw(false, true);
  }

  #fit(): void {
    const { clientWidth: width, clientHeight: height } = this.#host;
    const view = this.#view;
    if (width === 0 || height === 0 || view === undefined) return;
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    const hasAxes = height >= MIN_REM_WITH_AXES * rem;
    if (this.#plot !== undefined && rem === this.#rem && hasAxes === this.#hasAxes) {
      this.#plot.setSize({ width, height });
      return;
    }
    // A changed font size needs a new plot, because uPlot reads the size of axis labels only on creation.
    this.#rem = rem;
    this.#hasAxes = hasAxes;
    this.#plot?.destroy();
    this.#plot = new uPlot(this.#options(width, height), [view.stretch.seconds, view.stretch.prices], this.#host);
  }

  #options(width: number, height: number): uPlot.Options {
    const host = this.#host;
    const rem = this.#rem;
    const hasAxes = this.#hasAxes;
    return {
      width,
      height,
      legend: { show: false },
      padding: hasAxes ? [rem / 2, 0, 0, 0] : [rem / 4, rem / 4, rem / 4, 0],
      cursor: {
        y: false,
        drag: { x: false, y: false },
        sync: { key: CROSSHAIRS.key },
        points: { size: 0.5 * rem, width: 2, fill: cssColour(host, '--surface'), stroke: cssColour(host, '--accent') },
      },
      scales: {
        x: { range: () => [this.#view?.from ?? 0, this.#view?.to ?? 1] },
        y: { range: () => priceRange(this.#view) },
      },
      axes: chartAxes({ host, rem, hasAxes, format: () => this.#view?.format, last: () => this.#view?.last }),
      series: [
        {},
        {
          stroke: cssColour(host, '--accent'),
          fill: cssColour(host, '--accent-veil'),
          width: 0.1 * rem,
          points: { show: false },
          paths: (...series) => (this.#view?.stretch.candles === undefined ? (linePaths?.(...series) ?? null) : null),
        },
      ],
      hooks: { setCursor: [(plot) => this.#onCursor(plot)], draw: [(plot) => this.#paint(plot)] },
    };
  }

  #paint(plot: uPlot): void {
    if (this.#view === undefined) return;
    const { stretch, last, format } = this.#view;
    const canvas = { plot, host: this.#host, rem: this.#rem };
    if (last !== undefined && this.#hasAxes) paintLastPrice(canvas, last, format.plainPrice(last));
    const second = stretch.seconds.at(-1);
    const price = stretch.prices.at(-1);
    if (stretch.candles !== undefined) paintCandles(canvas, stretch.seconds, stretch.prices, stretch.candles);
    else if (second !== undefined && price != null) paintNewest(canvas, second, price);
  }

  #onCursor({ cursor }: uPlot): void {
    const index = cursor.left === undefined || cursor.left < 0 ? null : cursor.idx;
    this.#point = index == null ? undefined : this.#pointAt(index);
    this.#onPoint(this.#point);
  }

  #pointAt(index: number): Point | undefined {
    const { seconds = [], prices = [], candles } = this.#view?.stretch ?? {};
    const second = seconds[index];
    const price = prices[index];
    if (second === undefined || price == null) return undefined;
    const { opens = [], highs = [], lows = [], length = 0 } = candles ?? {};
    const [open, high, low] = [opens[index], highs[index], lows[index]];
    if (open === undefined || high === undefined || low === undefined) return { second, price };
    return { second: second - length / 2, price, candle: { open, high, low } };
  }

  /** Makes the crosshair follow a finger, and stay at the last time when the finger is lifted. */
  #followTouch(): void {
    const host = this.#host;
    document.addEventListener('pointerdown', () => this.#pin(undefined));
    host.addEventListener('pointerdown', ({ pointerType, clientX }) => {
      if (pointerType === 'touch') this.#moveCrosshair(clientX);
    });
    host.addEventListener('pointermove', ({ pointerType, clientX }) => {
      if (pointerType === 'touch') this.#moveCrosshair(clientX);
    });
    host.addEventListener('pointerup', ({ pointerType }) => {
      if (pointerType === 'touch' && this.#point !== undefined) this.#pin(this.#timeOf(this.#point));
    });
    // Browsers send `pointercancel` when a vertical movement of the finger scrolls the page.
    host.addEventListener('pointercancel', () => this.#hideCrosshair());
  }

  #onKey(event: KeyboardEvent): void {
    const { from = 0, stretch = { seconds: [], prices: [] } } = this.#view ?? {};
    const points = stretch.seconds.filter((second, index) => second >= from && stretch.prices[index] !== null);
    const last = points.length - 1;
    const now = this.#pinned === undefined ? last : points.findLastIndex((second) => second <= (this.#pinned ?? 0));
    const steps: Record<string, number> = {
      ArrowLeft: this.#pinned === undefined ? now : now - 1,
      ArrowRight: now + 1,
      ArrowDown: now - 1,
      ArrowUp: now + 1,
      PageDown: now - 10,
      PageUp: now + 10,
      Home: 0,
      End: last,
    };
    const step = steps[event.key];
    if (step === undefined && event.key !== 'Escape') return;
    event.preventDefault();
    this.#pin(step === undefined ? undefined : points[Math.min(Math.max(step, 0), last)]);
  }

  #pin(second: number | undefined): void {
    const plot = this.#plot;
    if (plot === undefined || (second === undefined && this.#pinned === undefined)) return;
    this.#pinned = second;
    if (second === undefined) this.#hideCrosshair();
    else this.#moveCrosshair(plot.over.getBoundingClientRect().left + plot.valToPos(second, 'x'));
  }

  /** Returns the Unix time at which a point is drawn. A candle is drawn at its middle. */
  #timeOf({ second }: Point): number {
    return second + (this.#view?.stretch.candles?.length ?? 0) / 2;
  }

  /** Moves the crosshairs of all charts by a simulated mouse event, because uPlot synchronizes only mouse input. */
  #moveCrosshair(clientX: number): void {
    const over = this.#plot?.over;
    if (over === undefined) return;
    const { left, right, top, height } = over.getBoundingClientRect();
    const x = Math.min(Math.max(clientX, left), right - 1);
    over.dispatchEvent(new MouseEvent('mousemove', { clientX: x, clientY: top + height / 2 }));
  }

  #hideCrosshair(): void {
    this.#plot?.over.dispatchEvent(new MouseEvent('mouseleave'));
  }
}

function priceRange(view: ChartView | undefined): [number, number] {
  const { seconds = [], prices = [], candles } = view?.stretch ?? {};
  const isVisible = (_: unknown, index: number) => candles !== undefined || (seconds[index] ?? 0) >= (view?.from ?? 0);
  const visible = [...(candles?.lows ?? prices), ...(candles?.highs ?? [])].filter(isVisible);
  const values = [...visible, view?.last].filter((price) => price != null);
  if (values.length === 0) return [0, 1];
  const low = Math.min(...values);
  const high = Math.max(...values);
  const air = low === high ? low * 0.0005 || 0.01 : (high - low) * 0.08;
  return [low - air, high + air];
}
