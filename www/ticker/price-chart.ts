import uPlot from '/vendor/uplot.js';
import { formatShortTime, formatTime, type PriceFormat } from './format.ts';
import type { Stretch } from './history.ts';

/** Unix time and price under the crosshair. */
export interface Point {
  second: number;
  price: number;
}

/** Minimum height of a chart with axes, in rem. A smaller chart shows only the line. */
const MIN_REM_WITH_AXES = 5;

/** Synchronizes the crosshairs of all charts. */
const CROSSHAIRS = uPlot.sync('prices');

/** Line chart of one symbol's price over time, with a crosshair that follows the pointer or the keyboard. */
export class PriceChart {
  readonly #host: HTMLElement;
  readonly #onPoint: (point: Point | undefined) => void;
  #plot: uPlot | undefined;
  #stretch: Stretch = { seconds: [], prices: [] };
  #from = 0;
  #to = 1;
  /** Unix time selected by keyboard. The crosshair stays at this time while the chart moves. */
  #pinned: number | undefined;
  #rem = 0;
  #hasAxes = true;
  /** Format of the price axis labels. Undefined until the first prices arrive. */
  #format: PriceFormat | undefined;

  constructor(host: HTMLElement, onPoint: (point: Point | undefined) => void) {
    this.#host = host;
    this.#onPoint = onPoint;
    new ResizeObserver(() => this.#fit()).observe(host);
    host.addEventListener('keydown', (event) => this.#onKey(event));
    host.addEventListener('blur', () => this.#pin(undefined));
    host.addEventListener('pointerdown', () => this.#pin(undefined));
  }

  /** Shows the prices between the Unix times `from` and `to`. */
  render(stretch: Stretch, from: number, to: number, format: PriceFormat): void {
    this.#format = format;
    this.#stretch = stretch;
    this.#from = from;
    this.#to = to;
    if (this.#plot === undefined) this.#fit();
    this.#plot?.setData([stretch.seconds, stretch.prices]);
    // Moves the crosshair in a microtask, after the microtask in which uPlot applies the new scales.
    const pinned = this.#pinned;
    if (pinned !== undefined) queueMicrotask(() => this.#pin(Math.max(pinned, from)));
  }

  /** Redraws with the current colours. */
  repaint(): void {
    this.#plot?.redraw(false, true);
  }

  #fit(): void {
    const { clientWidth: width, clientHeight: height } = this.#host;
    if (width === 0 || height === 0 || this.#format === undefined) return;
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
    this.#plot = new uPlot(this.#options(width, height), [this.#stretch.seconds, this.#stretch.prices], this.#host);
  }

  #options(width: number, height: number): uPlot.Options {
    const rem = this.#rem;
    const { fontFamily } = getComputedStyle(this.#host);
    const colour = (name: string) => () => getComputedStyle(this.#host).getPropertyValue(name).trim();
    const font = `${0.75 * rem}px ${fontFamily}`;
    const axis = {
      stroke: colour('--quiet'),
      font,
      ticks: { show: false },
      border: { show: false },
    };
    const grid = { stroke: colour('--line'), width: 1 };
    return {
      width,
      height,
      legend: { show: false },
      padding: this.#hasAxes ? [rem / 2, 0, 0, 0] : [rem / 4, rem / 4, rem / 4, 0],
      cursor: {
        y: false,
        drag: { x: false, y: false },
        sync: { key: CROSSHAIRS.key },
        points: { size: 0.5 * rem, width: 2, fill: colour('--surface'), stroke: colour('--accent') },
      },
      scales: { x: { range: () => [this.#from, this.#to] }, y: { range: (_plot, low, high) => margins(low, high) } },
      axes: [
        {
          ...axis,
          show: this.#hasAxes,
          grid: { show: false },
          size: 1.25 * rem,
          gap: 0.4 * rem,
          space: 4 * rem,
          incrs: [10, 15, 30, 60, 120, 180, 300, 600],
          // Omits labels that would be cut off at the edges.
          values: (plot, splits, _axis, _space, step) =>
            splits.map((second) => {
              const left = plot.valToPos(second, 'x');
              if (left < 2 * rem || left > plot.over.clientWidth - rem) return '';
              return step < 60 ? formatTime(second) : formatShortTime(second);
            }),
        },
        {
          ...axis,
          show: this.#hasAxes,
          grid,
          side: 1,
          gap: 0.5 * rem,
          space: 2.5 * rem,
          size: ({ ctx }, labels) => {
            ctx.font = font;
            return Math.max(0, ...(labels ?? []).map((label) => ctx.measureText(label).width)) + 0.5 * rem;
          },
          values: (_plot, splits) => splits.map((price) => this.#format?.axisPrice(price) ?? ''),
        },
      ],
      series: [
        {},
        { stroke: colour('--accent'), fill: colour('--accent-veil'), width: 0.1 * rem, points: { show: false } },
      ],
      hooks: { setCursor: [(plot) => this.#onCursor(plot)], draw: [(plot) => this.#markNewest(plot)] },
    };
  }

  /** Draws a dot at the newest price, because a single price has no visible line. */
  #markNewest(plot: uPlot): void {
    const second = this.#stretch.seconds.at(-1);
    const price = this.#stretch.prices.at(-1);
    if (second === undefined || price == null) return;
    const { ctx } = plot;
    // The fill style is restored afterwards, because uPlot caches the style and would not set it again.
    ctx.save();
    ctx.beginPath();
    ctx.arc(
      plot.valToPos(second, 'x', true),
      plot.valToPos(price, 'y', true),
      0.2 * this.#rem * devicePixelRatio,
      0,
      2 * Math.PI,
    );
    ctx.fillStyle = getComputedStyle(this.#host).getPropertyValue('--accent');
    ctx.fill();
    ctx.restore();
  }

  #onCursor({ cursor }: uPlot): void {
    const index = cursor.left === undefined || cursor.left < 0 ? null : cursor.idx;
    const second = this.#stretch.seconds[index ?? -1];
    const price = this.#stretch.prices[index ?? -1];
    this.#onPoint(second === undefined || price == null ? undefined : { second, price });
  }

  #onKey(event: KeyboardEvent): void {
    const points = this.#stretch.seconds.filter(
      (second, index) => second >= this.#from && this.#stretch.prices[index] !== null,
    );
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
    if (second === undefined && this.#pinned === undefined) return;
    this.#pinned = second;
    const left = second === undefined ? -10 : (this.#plot?.valToPos(second, 'x') ?? -10);
    this.#plot?.setCursor({ left, top: second === undefined ? -10 : 0 }, true);
  }
}

/** Returns the range of the price axis: the lowest to the highest price, plus margins. A flat line is centred. */
function margins(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const air = low === high ? Math.max(low * 0.0005, 0.01) : (high - low) * 0.08;
  return [low - air, high + air];
}
