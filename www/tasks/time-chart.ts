import uPlot from '/vendor/uplot.js';
import { cssColour, onColourChange } from '../shared/canvas-colours.ts';
import { formatCount, formatRate } from './amounts.ts';

export interface ChartLine {
  colour: string;
  /** CSS variable for the area below the line. */
  fill?: string;
  /** Lengths of dashes and gaps in rem, so that lines differ without colour. */
  dash?: readonly number[];
}

/** `times` are Unix times, oldest first. `columns` has one array of values for each line of the chart. */
export interface ChartData {
  times: number[];
  columns: (number | null)[][];
  /** Unix times at the left and right edge of the chart. */
  from: number;
  to: number;
}

/** All charts share one crosshair. */
const CROSSHAIRS = uPlot.sync('queue');
/** Value axis steps of 1, 2 and 5 times a power of ten, because uPlot's default steps include 2.5. */
const VALUE_STEPS = Array.from({ length: 10 }, (_, power) =>
  [1, 2, 5].map((digit) => digit * 10 ** (power - 1)),
).flat();
/** Steps of the time axis in seconds. */
const TIME_STEPS = [60, 120, 300, 600, 900];

const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' });

/** Chart of lines over time with a value axis from zero and a crosshair that follows the pointer. */
export class TimeChart {
  readonly #host: HTMLElement;
  readonly #lines: readonly ChartLine[];
  readonly #onIndex: (index: number | undefined) => void;
  readonly #minTop: number;
  #plot: uPlot | undefined;
  #data: ChartData = { times: [], columns: [], from: 0, to: 1 };
  #rem = 0;

  /** @param onIndex called with the index of the time under the crosshair, or undefined without a crosshair */
  constructor(
    host: HTMLElement,
    {
      lines,
      minTop,
      onIndex,
    }: { lines: readonly ChartLine[]; minTop: number; onIndex(index: number | undefined): void },
  ) {
    this.#host = host;
    this.#minTop = minTop;
    this.#lines = lines;
    this.#onIndex = onIndex;
    new ResizeObserver(() => this.#fit()).observe(host);
    onColourChange(() => this.#plot?.redraw(false, true));
  }

  render(data: ChartData): void {
    this.#data = data;
    if (this.#plot === undefined) this.#fit();
    else this.#plot.setData([data.times, ...data.columns]);
  }

  #fit(): void {
    const { clientWidth: width, clientHeight: height } = this.#host;
    if (width === 0 || height === 0 || this.#data.times.length === 0) return;
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    if (this.#plot !== undefined && rem === this.#rem) {
      this.#plot.setSize({ width, height });
      return;
    }
    // A changed font size needs a new plot, because uPlot reads the size of axis labels only on creation.
    this.#rem = rem;
    this.#plot?.destroy();
    const { times, columns } = this.#data;
    this.#plot = new uPlot(this.#options(width, height), [times, ...columns], this.#host);
  }

  #options(width: number, height: number): uPlot.Options {
    const rem = this.#rem;
    return {
      width,
      height,
      legend: { show: false },
      padding: [rem / 2, rem / 4, 0, 0],
      cursor: {
        y: false,
        drag: { x: false, y: false },
        sync: { key: CROSSHAIRS.key },
        points: { size: 0.5 * rem, width: 2, fill: this.#colour('--surface') },
      },
      scales: {
        x: { range: () => [this.#data.from, this.#data.to] },
        y: { range: (_plot, _low, high) => [0, Math.max(this.#minTop, (high ?? 0) * 1.1)] },
      },
      axes: this.#axes(),
      series: [{}, ...this.#lines.map((line) => this.#series(line))],
      hooks: { setCursor: [(plot) => this.#onCursor(plot)] },
    };
  }

  #series({ colour, fill, dash }: ChartLine): uPlot.Series {
    return {
      stroke: this.#colour(colour),
      ...(fill !== undefined && { fill: this.#colour(fill) }),
      ...(dash !== undefined && { dash: dash.map((length) => length * this.#rem) }),
      width: 0.11 * this.#rem,
      points: { show: false },
    };
  }

  #axes(): uPlot.Axis[] {
    const rem = this.#rem;
    const font = `${0.75 * rem}px ${getComputedStyle(this.#host).fontFamily}`;
    const axis = { stroke: this.#colour('--quiet'), font, ticks: { show: false }, border: { show: false } };
    return [
      {
        ...axis,
        grid: { show: false },
        size: 1.25 * rem,
        gap: 0.4 * rem,
        space: 4 * rem,
        incrs: TIME_STEPS,
        values: (plot, splits) => splits.map((second) => this.#timeLabel(plot, second)),
      },
      {
        ...axis,
        grid: { stroke: this.#colour('--line'), width: 1 },
        gap: 0.4 * rem,
        space: 1.75 * rem,
        incrs: VALUE_STEPS,
        size: ({ ctx }, labels) => {
          ctx.font = font;
          return Math.max(0, ...(labels ?? []).map((label) => ctx.measureText(label).width)) + 0.6 * rem;
        },
        values: (_plot, splits, _axis, _space, step) => splits.map(step < 1 ? formatRate : formatCount),
      },
    ];
  }

  /** Returns a time label, or an empty string if the label would be cut off at an edge of the chart. */
  #timeLabel(plot: uPlot, second: number): string {
    const left = plot.valToPos(second, 'x');
    const width = plot.bbox.width / devicePixelRatio;
    return left < this.#rem || left > width - 1.25 * this.#rem ? '' : clock.format(second * 1_000);
  }

  #colour(name: string): () => string {
    return cssColour(this.#host, name);
  }

  #onCursor({ cursor }: uPlot): void {
    const isShown = cursor.left !== undefined && cursor.left >= 0 && cursor.idx != null;
    this.#onIndex(isShown ? (cursor.idx as number) : undefined);
  }
}
