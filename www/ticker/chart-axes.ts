import type uPlot from '/vendor/uplot.js';
import { cssColour } from '../shared/canvas-colours.ts';
import { formatShortTime, formatTime, type PriceFormat } from './format.ts';

export interface AxisContext {
  host: HTMLElement;
  /** Size of the root font in pixels. */
  rem: number;
  hasAxes: boolean;
  format(): PriceFormat | undefined;
  /** Newest price, which has a label of its own on the price axis. */
  last(): number | undefined;
}

/** Price axis steps of 1, 2 and 5 times a power of ten, because uPlot's default steps include 2.5. */
const PRICE_STEPS = Array.from({ length: 30 }, (_, index) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${index - 12}`)),
).flat();

/** Steps of the time axis in seconds. */
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 180, 300, 600];

export const axisFont = ({ host, rem }: Pick<AxisContext, 'host' | 'rem'>) =>
  `${0.75 * rem}px ${getComputedStyle(host).fontFamily}`;

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
      // Low charts have a smaller label distance, so that several price labels fit.
      space: (_plot, _axis, _min, _max, height) => Math.min(2.5 * rem, Math.max(1.4 * rem, height / 5)),
      incrs: PRICE_STEPS,
      size: (plot, labels) => priceAxisWidth(plot, labels ?? [], context),
      values: (plot, splits, _axis, _space, step) => priceLabels(plot, splits, step, context),
    },
  ];
}

/** Returns the time labels. A label that would be cut off at an edge of the chart is an empty string. */
function timeLabels(plot: uPlot, splits: number[], step: number, rem: number): string[] {
  const width = plot.bbox.width / devicePixelRatio;
  return splits.map((second) => {
    const left = plot.valToPos(second, 'x');
    if (left < 2 * rem || left > width) return '';
    return step < 60 ? formatTime(second) : formatShortTime(second);
  });
}

/** Returns the price labels. A label that would overlap the newest price's label is an empty string. */
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
