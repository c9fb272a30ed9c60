import uPlot from 'uplot';
import { axisFont, cssColour, onColourChange, plotBase, rootFontSize, widestOf } from '../shared/plot.ts';
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
interface ChartData {
  periods: Periods;
  from: number;
  end: number;
  starts: readonly number[];
}

/** Steps of the time axis in seconds. */
const TIME_STEPS = [60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600];

interface ChartOptions {
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
    const rem = rootFontSize();
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
    ...plotBase(host, rem, ...axesOf(host, rem)),
    padding: [rem / 2, rem / 4, 0, 0],
    scales: {
      x: { range: () => [data?.from ?? 0, data?.end ?? 1] },
      y: { range: (_plot, _low, high) => [0, Math.max(minTop, (high ?? 0) * 1.1)] },
    },
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

function axesOf(host: HTMLElement, rem: number): [time: uPlot.Axis, value: uPlot.Axis] {
  const font = axisFont(host, rem);
  return [
    { incrs: TIME_STEPS, values: (plot, splits) => splits.map((second) => timeLabel(plot, second, rem)) },
    {
      space: 1.75 * rem,
      size: (plot, labels) => widestOf(plot, labels ?? [], font) + 0.6 * rem,
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
