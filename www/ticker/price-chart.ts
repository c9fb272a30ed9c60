import uPlot from 'uplot';
import { cssColour, onColourChange, rootFontSize } from '../shared/plot.ts';
import type { Candle } from './history.ts';
import { type ChartView, plotData, plotOptions, type Span } from './price-plot.ts';

/** Time span that a chart shows instead of the selected range. It ends now if `to` is undefined. */
export interface Zoom {
  seconds: number;
  to: number | undefined;
}

const MIN_REM_WITH_AXES = 5;
const MIN_SPAN_SECONDS = 10;
/** Number of points by which a key moves the crosshair. */
const KEY_STEPS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowRight: 1,
  ArrowDown: -1,
  ArrowUp: 1,
  PageDown: -10,
  PageUp: 10,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};
/** Factor of the time span by which a key zooms. */
const KEY_ZOOMS: Readonly<Record<string, number>> = { '+': 0.8, '=': 0.8, '-': 1.25, _: 1.25 };
/** Share of the time span by which a key pans. */
const KEY_PANS: Readonly<Record<string, number>> = { ArrowLeft: -0.2, ArrowRight: 0.2 };
const PIXELS_PER_WHEEL_FACTOR = 400;
/** Least distance between two fingers in pixels, so that a pinch does not divide by zero. */
const MIN_PINCH = 20;

/** Chart of one symbol's price over time, with a crosshair moved by mouse, touch or keyboard. */
export class PriceChart {
  readonly #host: HTMLElement;
  readonly #onPoint: (point: Candle | undefined) => void;
  readonly #onZoom: ((zoom: Zoom) => void) | undefined;
  readonly #over = new AbortController();
  readonly #resizing = new ResizeObserver(() => this.#fit());
  /** Positions of the fingers and of the pressed mouse in CSS pixels. */
  readonly #pointers = new Map<number, number>();
  #plot: uPlot | undefined;
  #view: ChartView;
  /** Unix time of a crosshair placed by keyboard or touch. The crosshair keeps this time when the chart moves. */
  #pinned: number | undefined;
  #rem = 0;
  #hasAxes = true;

  /**
   * @param onPoint called with the candle, or the price of a line, under the crosshair
   * @param onZoom shows another time span. A chart without it does not zoom and pan.
   */
  constructor(
    host: HTMLElement,
    view: ChartView,
    onPoint: (point: Candle | undefined) => void,
    onZoom?: (zoom: Zoom) => void,
  ) {
    this.#host = host;
    this.#view = view;
    this.#onPoint = onPoint;
    this.#onZoom = onZoom;
    const { signal } = this.#over;
    this.#resizing.observe(host);
    onColourChange(() => this.#plot?.redraw(false, true), signal);
    document.addEventListener('pointerdown', () => this.#pin(undefined), { signal });
    host.addEventListener('keydown', (event) => this.#onKey(event));
    host.addEventListener('blur', () => this.#pin(undefined));
    host.addEventListener('pointerdown', (event) => this.#onPointerDown(event));
    host.addEventListener('pointermove', (event) => this.#onPointerMove(event));
    host.addEventListener('pointerup', (event) => this.#onPointerUp(event));
    // Browsers send `pointercancel` when a vertical movement of the finger scrolls the page.
    host.addEventListener('pointercancel', (event) => this.#onPointerUp(event));
    if (onZoom) host.addEventListener('wheel', (event) => this.#onWheel(event), { passive: false });
    this.#fit();
  }

  destroy(): void {
    this.#over.abort();
    this.#resizing.disconnect();
    this.#plot?.destroy();
  }

  render(view: ChartView): void {
    const isOtherKind = view.length !== this.#view.length;
    this.#view = view;
    this.#plot?.batch((plot: uPlot) => {
      plot.setData(plotData(view));
      // The labels make room for that of the newest price, which may move although the scale does not change.
      plot.redraw(false, true);
    });
    const pinned = this.#pinned;
    if (pinned === undefined) return;
    // The crosshair is moved in all charts, so each must have been drawn.
    queueMicrotask(() => this.#pin(isOtherKind ? undefined : Math.max(pinned, view.from)));
  }

  /** Shows a time span `factor` times as long, and leaves a Unix time in place if `bounds` allow. */
  zoom(factor: number, at = (this.#view.from + this.#view.to) / 2): void {
    const { from, to, bounds } = this.#view;
    const length = Math.min(Math.max((to - from) * factor, MIN_SPAN_SECONDS), bounds.to - bounds.from);
    const start = at - ((at - from) / (to - from)) * length;
    this.#pan(0, { from: start, to: start + length });
  }

  /** Downloads the chart as a PNG with a caption above it. */
  save({ symbol, price, change, time }: Record<'symbol' | 'price' | 'change' | 'time', string>): void {
    const chart = this.#plot?.ctx.canvas;
    const picture = document.createElement('canvas');
    const context = picture.getContext('2d');
    if (chart === undefined || context === null) return;
    const rem = this.#rem * devicePixelRatio;
    const padding = 1.5 * rem;
    const head = 5.5 * rem;
    const family = getComputedStyle(document.body).fontFamily;
    picture.width = chart.width + 2 * padding;
    picture.height = chart.height + head + padding;
    const colour = (name: string) => cssColour(document.body, name)();
    context.fillStyle = colour('--surface');
    context.fillRect(0, 0, picture.width, picture.height);
    for (const [left, right, y, font, name] of [
      [symbol, price, 2.5 * rem, `600 ${1.5 * rem}px ${family}`, '--ink'],
      [time, change, 4.25 * rem, `${0.875 * rem}px ${family}`, '--quiet'],
    ] as const) {
      Object.assign(context, { font, fillStyle: colour(name), textAlign: 'left' });
      context.fillText(left, padding, y);
      context.textAlign = 'right';
      context.fillText(right, picture.width - padding, y);
    }
    context.drawImage(chart, padding, head);
    picture.toBlob((blob) => {
      if (blob === null) return;
      const link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = `${symbol} ${time.replaceAll(':', '.')}.png`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  /** Shows a later time span, or an earlier one if `seconds` is negative, as far as `bounds` allow. */
  #pan(seconds: number, { from, to }: Span = this.#view): void {
    const { bounds } = this.#view;
    const end = to + Math.max(Math.min(seconds, bounds.to - to), bounds.from - from);
    this.#onZoom?.({ seconds: to - from, to: end < bounds.to ? end : undefined });
  }

  #fit(): void {
    const { clientWidth: width, clientHeight: height } = this.#host;
    if (width === 0 || height === 0) return;
    const rem = rootFontSize();
    const hasAxes = height >= MIN_REM_WITH_AXES * rem;
    if (this.#plot !== undefined && rem === this.#rem && hasAxes === this.#hasAxes) {
      this.#plot.setSize({ width, height });
      return;
    }
    // A changed font size needs a new plot, because uPlot reads the size of axis labels only on creation.
    this.#rem = rem;
    this.#hasAxes = hasAxes;
    this.#plot?.destroy();
    const options = plotOptions({ host: this.#host, rem, hasAxes, view: () => this.#view });
    options.hooks = {
      ...options.hooks,
      setCursor: [({ cursor: { idx } }) => this.#onPoint(this.#view.candles[idx ?? -1])],
    };
    this.#plot = new uPlot({ ...options, width, height }, plotData(this.#view), this.#host);
  }

  /** One finger moves the crosshair, which stays when the finger is lifted. Two fingers zoom, and the mouse pans. */
  #onPointerDown({ pointerType, pointerId, clientX, button }: PointerEvent): void {
    if (pointerType === 'touch') this.#moveCrosshair(clientX);
    else if (button !== 0 || this.#onZoom === undefined) return;
    this.#pointers.set(pointerId, clientX);
    this.#host.setPointerCapture(pointerId);
  }

  #onPointerMove({ pointerType, pointerId, clientX }: PointerEvent): void {
    const before = this.#pointers.get(pointerId);
    if (before === undefined) return;
    this.#pointers.set(pointerId, clientX);
    const other = [...this.#pointers].find(([id]) => id !== pointerId)?.[1];
    if (other !== undefined) {
      const factor = Math.max(MIN_PINCH, Math.abs(before - other)) / Math.max(MIN_PINCH, Math.abs(clientX - other));
      this.zoom(factor, this.#secondAt(other));
    } else if (pointerType === 'touch') this.#moveCrosshair(clientX);
    else this.#pan(this.#secondAt(before) - this.#secondAt(clientX));
  }

  #onPointerUp({ type, pointerType, pointerId }: PointerEvent): void {
    this.#pointers.delete(pointerId);
    const { cursor, data } = this.#plot ?? {};
    if (type === 'pointercancel') this.#hideCrosshair();
    else if (pointerType === 'touch') this.#pin(data?.[0][cursor?.idx ?? -1]);
  }

  #onWheel(event: WheelEvent): void {
    const { deltaX, deltaY, shiftKey, clientX } = event;
    event.preventDefault();
    const sideways = shiftKey ? deltaX || deltaY : deltaX;
    if (Math.abs(sideways) >= Math.abs(deltaY)) this.#pan(this.#secondAt(sideways) - this.#secondAt(0));
    else this.zoom(Math.exp(deltaY / PIXELS_PER_WHEEL_FACTOR), this.#secondAt(clientX));
  }

  /** Moves or hides the crosshair. A chart with `onZoom` also zooms with + and −, and pans with Shift and an arrow key. */
  #onKey(event: KeyboardEvent): void {
    const { key, shiftKey } = event;
    const { from, to } = this.#view;
    const step = KEY_STEPS[key];
    const [factor, share] = this.#onZoom === undefined ? [] : [KEY_ZOOMS[key], shiftKey ? KEY_PANS[key] : undefined];
    if (factor !== undefined) this.zoom(factor, this.#pinned);
    else if (share !== undefined) this.#pan((to - from) * share);
    else if (step !== undefined) this.#step(step);
    else if (key === 'Escape' && this.#pinned !== undefined) this.#pin(undefined);
    else return;
    event.preventDefault();
  }

  /** Moves the crosshair by a number of points, at first from the right edge. */
  #step(points: number): void {
    const { from, to } = this.#view;
    const pinned = this.#pinned;
    const seconds = plotData(this.#view)[0].filter((second) => second >= from && second <= to);
    const now = pinned === undefined ? seconds.length : seconds.findLastIndex((second) => second <= pinned);
    this.#pin(seconds[Math.min(Math.max(now + points, 0), seconds.length - 1)]);
  }

  #pin(second: number | undefined): void {
    const plot = this.#plot;
    if (plot === undefined || (second === undefined && this.#pinned === undefined)) return;
    this.#pinned = second;
    if (second === undefined) this.#hideCrosshair();
    else this.#moveCrosshair(plot.rect.left + plot.valToPos(second, 'x'));
  }

  /** Returns the Unix time at a horizontal position in the window. */
  #secondAt(clientX: number): number {
    const plot = this.#plot;
    return plot === undefined ? 0 : plot.posToVal(clientX - plot.rect.left, 'x');
  }

  /** Moves the crosshairs of all charts by a simulated mouse event, because uPlot synchronizes only mouse input. */
  #moveCrosshair(clientX: number): void {
    if (this.#plot === undefined) return;
    const { over, rect } = this.#plot;
    const x = Math.min(Math.max(clientX, rect.left), rect.right - 1);
    over.dispatchEvent(new MouseEvent('mousemove', { clientX: x, clientY: rect.top + rect.height / 2 }));
  }

  #hideCrosshair(): void {
    this.#plot?.over.dispatchEvent(new MouseEvent('mouseleave'));
  }
}
