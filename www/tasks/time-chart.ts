import uPlot from 'uplot';
import { cssColour, onColourChange } from '../shared/canvas-colours.ts';
import type { Periods } from './queue-history.ts';
import { formatCount, formatMinute, formatRate } from './texts.ts';

export interface ChartLine {
  colour: string;
  /** CSS variable for the area below the line. */
  fill?: string;
  /** Lengths of dashes and gaps in rem, so that lines differ without colour. */
  dash?: readonly number[];
}

/** Periods from the Unix time `from` to `end`, and the starts of the service, which are marked. */
export interface ChartData {
  periods: Periods;
  from: number;
  end: number;
  starts: readonly number[];
}

/** All charts share one crosshair. */
const CROSSHAIRS = uPlot.sync('queue');
/** Value axis steps of 1, 2 and 5 times a power of ten, because uPlot's default steps include 2.5. */
const VALUE_STEPS = Array.from({ length: 10 }, (_, power) =>
  [1, 2, 5].map((digit) => digit * 10 ** (power - 1)),
).flat();
/** Steps of the time axis in seconds. */
const TIME_STEPS = [60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600];

export interface ChartOptions {
  /** Lines by the name of their values. */
  lines: Readonly<Record<string, ChartLine>>;
  /** Least value at the upper end of the chart. */
  minTop: number;
  /** Called with the index of the time under the crosshair, or undefined without a crosshair. */
  onIndex(index: number | undefined): void;
}

/**
 * Draws a chart of lines over time with a value axis from zero and a crosshair that follows the pointer.
 *
 * @returns a function that shows newer data
 */
export function timeChart(host: HTMLElement, { lines, minTop, onIndex }: ChartOptions): (data: ChartData) => void {
  let data: ChartData | undefined;
  let plot: uPlot | undefined;
  let plotRem = 0;
  const colour = (name: string) => cssColour(host, name);
  const columns = ({ periods }: ChartData): uPlot.AlignedData => {
    const values = Object.keys(lines).map((name) => periods[name as keyof Periods]);
    return [periods.times, ...values];
  };

  const create = () => {
    const { clientWidth: width, clientHeight: height } = host;
    if (width === 0 || height === 0 || data === undefined || data.periods.times.length === 0) return;
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    if (plot !== undefined && rem === plotRem) {
      plot.setSize({ width, height });
      return;
    }
    // A changed font size needs a new plot, because uPlot reads the size of axis labels only on creation.
    plotRem = rem;
    plot?.destroy();
    plot = new uPlot({ width, height, ...options(rem) }, columns(data), host);
  };

  const options = (rem: number): Omit<uPlot.Options, 'width' | 'height'> => ({
    legend: { show: false },
    padding: [rem / 2, rem / 4, 0, 0],
    cursor: {
      y: false,
      drag: { x: false, y: false },
      sync: { key: CROSSHAIRS.key },
      points: { size: 0.5 * rem, width: 2, fill: colour('--surface') },
    },
    scales: {
      x: { range: () => [data?.from ?? 0, data?.end ?? 1] },
      y: { range: (_plot, _low, high) => [0, Math.max(minTop, (high ?? 0) * 1.1)] },
    },
    axes: axesOf(host, rem),
    series: [
      {},
      ...Object.values(lines).map(({ colour: stroke, fill, dash }) => ({
        stroke: colour(stroke),
        ...(fill !== undefined && { fill: colour(fill) }),
        ...(dash !== undefined && { dash: dash.map((length) => length * rem) }),
        width: 0.11 * rem,
        points: { show: false },
      })),
    ],
    hooks: {
      setCursor: [({ cursor: { left = -1, idx } }) => onIndex(left < 0 || idx === null ? undefined : idx)],
      drawAxes: [(drawn) => drawMarks(drawn, data?.starts ?? [], colour('--edge')())],
    },
  });

  // Creates each chart in a task of its own, so that input is handled between two of them.
  const show = () => (plot === undefined ? setTimeout(create) : create());
  new ResizeObserver(show).observe(host);
  onColourChange(() => plot?.redraw(false, true));
  return (newest) => {
    data = newest;
    if (plot === undefined) show();
    else plot.setData(columns(data));
  };
}

function axesOf(host: HTMLElement, rem: number): uPlot.Axis[] {
  const font = `${0.75 * rem}px ${getComputedStyle(host).fontFamily}`;
  const axis = { stroke: cssColour(host, '--quiet'), font, ticks: { show: false }, border: { show: false } };
  return [
    {
      ...axis,
      grid: { show: false },
      size: 1.25 * rem,
      gap: 0.4 * rem,
      space: 4 * rem,
      incrs: TIME_STEPS,
      values: (plot, splits) => splits.map((second) => timeLabel(plot, second, rem)),
    },
    {
      ...axis,
      grid: { stroke: cssColour(host, '--line'), width: 1 },
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
function timeLabel(plot: uPlot, second: number, rem: number): string {
  const left = plot.valToPos(second, 'x');
  const isCut = left < rem || left > plot.bbox.width / devicePixelRatio - 1.25 * rem;
  return isCut ? '' : formatMinute(second * 1_000).slice(-'00:00'.length);
}

/** Draws a dashed vertical line at each mark. */
function drawMarks({ ctx, bbox, valToPos }: uPlot, marks: readonly number[], colour: string): void {
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  for (const mark of marks) {
    const left = Math.round(valToPos(mark, 'x', true));
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
  }
  ctx.stroke();
  ctx.restore();
}
