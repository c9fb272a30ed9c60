import uPlot from 'uplot';
import { axisFont, cssColour, plotBase, widestOf } from '../shared/plot.ts';
import { formatShortTime, formatTime, type PriceFormat } from './format.ts';
import type { Candle } from './history.ts';

/** Unix times at the left and right edge of a chart. */
export interface Span {
  from: number;
  to: number;
}

export interface ChartView extends Span {
  candles: readonly Candle[];
  /** Length of each candle in seconds, or 0 for a line. */
  length: number;
  /** Least interval between two prices that counts as a gap, in seconds. */
  gap: number;
  /** Newest price, which may be older than `from`. Undefined without a price. */
  last: number | undefined;
  /** Highest and lowest price of the time span, negative and positive infinity if it has none. */
  high: number;
  low: number;
  format: PriceFormat;
  /** Time span that the chart can show: from the oldest known price, or the start of the selected range, until now. */
  bounds: Span;
}

interface PlotContext {
  /** Element whose CSS variables define the colours. */
  host: HTMLElement;
  rem: number;
  hasAxes: boolean;
  view(): ChartView;
}

const BODY_SHARE = 0.7;
/** Device pixels. Narrower candles are filled, because their outline would leave no visible inside. */
const MIN_HOLLOW_WIDTH = 4;
/** Steps of the time axis in seconds. */
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600];
const linePaths = uPlot.paths.linear?.() as uPlot.Series.PathBuilder;

/** Returns the data of a plot: the middles of the candles, and their closing prices. */
export function plotData({ candles, length }: ChartView): [seconds: number[], closes: number[]] {
  return [candles.map(({ second }) => second + length / 2), candles.map(({ close }) => close)];
}

export function plotOptions(context: PlotContext): Omit<uPlot.Options, 'width' | 'height'> {
  const { host, rem, hasAxes, view } = context;
  return {
    ...plotBase(host, rem, ...axesOf(context)),
    padding: hasAxes ? [rem / 2, 0, 0, 0] : [rem / 4, rem / 4, rem / 4, 0],
    scales: { x: { range: () => [view().from, view().to] }, y: { range: () => priceRange(view()) } },
    series: [
      {},
      {
        stroke: cssColour(host, '--accent'),
        fill: cssColour(host, '--accent-veil'),
        width: 0.1 * rem,
        // A dot at the newest price, because a line through a single price is invisible.
        points: {
          show: false,
          size: 0.4 * rem,
          width: 0,
          fill: cssColour(host, '--accent'),
          filter: ({ data }) => (view().length === 0 ? [data[0].length - 1] : null),
        },
        paths: (...series) => (view().length === 0 ? linePaths(...series) : null),
        gaps: (plot, _series, first, last) => gapsBetween(plot, first, last, view()),
      },
    ],
    hooks: { draw: [(plot) => paint(plot, context)] },
  };
}

function axesOf({ host, rem, hasAxes: show, view }: PlotContext): [time: uPlot.Axis, value: uPlot.Axis] {
  const font = axisFont(host, rem);
  return [
    {
      show,
      incrs: TIME_STEPS,
      values: (plot, splits, _axis, _space, step) =>
        splits.map((second) => {
          const left = plot.valToPos(second, 'x');
          // The edges of the chart would cut off a label.
          const isCut = left < 2 * rem || left > plot.bbox.width / devicePixelRatio;
          return isCut ? '' : step < 60 ? formatTime(second) : formatShortTime(second);
        }),
    },
    {
      show,
      side: 1,
      gap: 0.5 * rem,
      // Low charts have a smaller label distance, so that several price labels fit.
      space: (_plot, _axis, _min, _max, height) => Math.min(2.5 * rem, Math.max(1.4 * rem, height / 5)),
      size: (plot, labels) => {
        const { last, format } = view();
        const newest = last === undefined ? '' : format.plainPrice(last);
        return widestOf(plot, [...(labels ?? []), newest], font) + 0.75 * rem;
      },
      values: (plot, splits, _axis, _space, step) => {
        const { last, format } = view();
        const lastTop = plot.valToPos(last ?? Number.NaN, 'y');
        // A label must not overlap that of the newest price.
        const isCovered = (price: number) => Math.abs(plot.valToPos(price, 'y') - lastTop) < rem;
        return splits.map((price) => (isCovered(price) ? '' : format.axisPrice(price, step)));
      },
    },
  ];
}

function priceRange({ last, high, low }: ChartView): [number, number] {
  if (last === undefined) return [0, 1];
  const top = Math.max(high, last);
  const bottom = Math.min(low, last);
  const air = bottom === top ? top * 0.0005 || 0.01 : (top - bottom) * 0.08;
  return [bottom - air, top + air];
}

function gapsBetween(plot: uPlot, first: number, last: number, { candles, gap }: ChartView): uPlot.Series.Gaps {
  const left = ({ second }: Candle) => Math.round(plot.valToPos(second, 'x', true));
  return candles.slice(first, last + 1).flatMap((candle, index, all): uPlot.Series.Gaps => {
    const previous = all[index - 1] ?? candle;
    return candle.second - previous.second < gap ? [] : [[left(previous), left(candle)]];
  });
}

function paint(plot: uPlot, context: PlotContext): void {
  // uPlot caches the styles of the canvas, so changed styles must be restored after drawing.
  plot.ctx.save();
  if (context.hasAxes) paintLastPrice(plot, context);
  if (context.view().length > 0) paintCandles(plot, context);
  plot.ctx.restore();
}

/** Draws candles: hollow if the price rose and filled if it fell, so that they differ without colour. */
function paintCandles(plot: uPlot, { host, view }: PlotContext): void {
  const { candles, length } = view();
  const { ctx, bbox } = plot;
  const up = cssColour(host, '--up')();
  const down = cssColour(host, '--down')();
  const ground = cssColour(host, '--surface')();
  const width = plot.valToPos(length, 'x', true) - plot.valToPos(0, 'x', true);
  const body = Math.max(1, Math.round(width * BODY_SHARE));
  const top = (price: number) => plot.valToPos(price, 'y', true);
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = Math.max(1, devicePixelRatio);
  for (const { second, open, high, low, close } of candles) {
    const middle = Math.round(plot.valToPos(second + length / 2, 'x', true)) + 0.5;
    ctx.strokeStyle = close < open ? down : up;
    ctx.fillStyle = close < open || body < MIN_HOLLOW_WIDTH ? ctx.strokeStyle : ground;
    ctx.beginPath();
    ctx.moveTo(middle, top(high));
    ctx.lineTo(middle, top(low));
    ctx.stroke();
    ctx.beginPath();
    ctx.rect(middle - body / 2, top(Math.max(open, close)), body, Math.max(1, Math.abs(top(open) - top(close))));
    ctx.fill();
    ctx.stroke();
  }
}

function paintLastPrice(plot: uPlot, { host, rem, view }: PlotContext): void {
  const { last, format } = view();
  if (last === undefined) return;
  const label = format.plainPrice(last);
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const top = Math.round(plot.valToPos(last, 'y', true)) + 0.5;
  const right = bbox.left + bbox.width;
  ctx.strokeStyle = ctx.fillStyle = cssColour(host, '--accent')();
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, top);
  ctx.lineTo(right, top);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.font = axisFont(host, rem * ratio);
  const padding = 0.25 * rem * ratio;
  const height = 1.15 * rem * ratio;
  ctx.fillRect(right + padding, top - height / 2, ctx.measureText(label).width + 2 * padding, height);
  ctx.fillStyle = cssColour(host, '--accent-ink')();
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  ctx.fillText(label, right + 2 * padding, top);
}
