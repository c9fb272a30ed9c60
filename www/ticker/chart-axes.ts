import type uPlot from '/vendor/uplot.js';
import { cssColour } from '../shared/canvas-colours.ts';
import { formatShortTime, formatTime, type PriceFormat } from './format.ts';

/** Values needed to draw the axes. The functions are called each time the axes are drawn. */
export interface AxisContext {
  host: HTMLElement;
  /** Size of the root font in pixels. */
  rem: number;
  /** Whether the chart is large enough for axes. */
  hasAxes: boolean;
  format(): PriceFormat | undefined;
  /** Newest price, which has its own label on the price axis. */
  last(): number | undefined;
}

/** Steps of a price axis: 1, 2 and 5 times a power of ten, ascending. uPlot's default steps include 2.5. */
const PRICE_STEPS = Array.from({ length: 30 }, (_, index) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${index - 12}`)),
).flat();

/** Steps of the time axis in seconds. */
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 180, 300, 600];

/** Returns the font of the axis labels. */
export const axisFont = ({ host, rem }: Pick<AxisContext, 'host' | 'rem'>) =>
  `${0.75 * rem}px ${getComputedStyle(host).fontFamily}`;

/** Returns uPlot's options for the time axis and the price axis. */
export function chartAxes(context: AxisContext): uPlot.Axis[] {
  const { host, rem, hasAxes } = context;
  const axis: uPlot.Axis = {
    show: hasAxes,
    stroke: cssColour(host, '--quiet'),
    font: axisFont(context),
    ticks: { show: false },
    border: { show: false },
  };
  return [
    {
      ...axis,
      grid: { show: false },
      size: 1.25 * rem,
      gap: 0.4 * rem,
      space: 4 * rem,
      incrs: TIME_STEPS,
      values: (plot, splits, _axis, _space, step) => timeLabels(plot, splits, step, rem),
    },
    {
      ...axis,
      grid: { stroke: cssColour(host, '--line'), width: 1 },
      side: 1,
      gap: 0.5 * rem,
      // In a low chart, the labels are closer together, so that there is room for several.
      space: (_plot, _axis, _min, _max, height) => Math.min(2.5 * rem, Math.max(1.4 * rem, height / 5)),
      incrs: PRICE_STEPS,
      size: (plot, labels) => priceAxisWidth(plot, labels ?? [], context),
      values: (plot, splits, _axis, _space, step) => priceLabels(plot, splits, step, context),
    },
  ];
}

/** Returns the time labels. Labels that would be cut off at an edge are empty. */
function timeLabels(plot: uPlot, splits: number[], step: number, rem: number): string[] {
  const width = plot.bbox.width / devicePixelRatio;
  return splits.map((second) => {
    const left = plot.valToPos(second, 'x');
    if (left < 2 * rem || left > width) return '';
    return step < 60 ? formatTime(second) : formatShortTime(second);
  });
}

/** Returns the price labels. Labels that would overlap that of the newest price are empty. */
function priceLabels(plot: uPlot, splits: number[], step: number, { rem, format, last }: AxisContext): string[] {
  const lastPrice = last();
  const lastTop = lastPrice === undefined ? Number.NEGATIVE_INFINITY : plot.valToPos(lastPrice, 'y');
  return splits.map((price) => {
    if (Math.abs(plot.valToPos(price, 'y') - lastTop) < rem) return '';
    return format()?.axisPrice(price, step) ?? '';
  });
}

function priceAxisWidth({ ctx }: uPlot, labels: string[], context: AxisContext): number {
  const last = context.last();
  const lastLabel = last === undefined ? '' : (context.format()?.plainPrice(last) ?? '');
  ctx.font = axisFont(context);
  return Math.max(...[...labels, lastLabel].map((label) => ctx.measureText(label).width)) + 0.75 * context.rem;
}
