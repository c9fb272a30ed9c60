import type uPlot from '/vendor/uplot.js';
import { cssColour } from '../shared/canvas-colours.ts';
import type { Candles } from './candles.ts';
import { axisFont } from './chart-axes.ts';

const BODY_SHARE = 0.7;
/** Device pixels. Narrower candles are filled, because their outline would leave no visible inside. */
const MIN_HOLLOW_WIDTH = 4;

/** `host` is the element whose CSS variables define the colours, and `rem` the size of the root font in pixels. */
export interface Canvas {
  plot: uPlot;
  host: HTMLElement;
  rem: number;
}

/** Draws candles: hollow if the price rose and filled if it fell, so that they differ without colour. */
export function paintCandles(canvas: Canvas, seconds: number[], closes: (number | null)[], candles: Candles): void {
  const { plot, host } = canvas;
  const { ctx, bbox } = plot;
  const [up, down, ground] = ['--up', '--down', '--surface'].map((name) => cssColour(host, name)());
  const width = plot.valToPos(candles.length, 'x', true) - plot.valToPos(0, 'x', true);
  const body = Math.max(1, Math.round(width * BODY_SHARE));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = Math.max(1, devicePixelRatio);
  for (const [index, second] of seconds.entries()) {
    const open = candles.opens[index] as number;
    const close = closes[index] as number;
    const top = (price: number) => plot.valToPos(price, 'y', true);
    const middle = Math.round(plot.valToPos(second, 'x', true)) + 0.5;
    const colour = (close < open ? down : up) as string;
    ctx.strokeStyle = colour;
    ctx.fillStyle = close < open || body < MIN_HOLLOW_WIDTH ? colour : (ground as string);
    ctx.beginPath();
    ctx.moveTo(middle, top(candles.highs[index] as number));
    ctx.lineTo(middle, top(candles.lows[index] as number));
    ctx.stroke();
    const height = Math.max(1, Math.abs(top(open) - top(close)));
    ctx.beginPath();
    ctx.rect(middle - body / 2, Math.min(top(open), top(close)), body, height);
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

/** Draws a dot at the newest price, because a line through a single price is invisible. */
export function paintNewest({ plot, host, rem }: Canvas, second: number, price: number): void {
  const { ctx } = plot;
  // uPlot caches the fill style of the canvas, so a changed fill style must be restored after drawing.
  ctx.save();
  ctx.beginPath();
  const radius = 0.2 * rem * devicePixelRatio;
  ctx.arc(plot.valToPos(second, 'x', true), plot.valToPos(price, 'y', true), radius, 0, 2 * Math.PI);
  ctx.fillStyle = cssColour(host, '--accent')();
  ctx.fill();
  ctx.restore();
}

export function paintLastPrice({ plot, host, rem }: Canvas, price: number, label: string): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const top = Math.round(plot.valToPos(price, 'y', true)) + 0.5;
  const right = bbox.left + bbox.width;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = cssColour(host, '--accent')();
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, top);
  ctx.lineTo(right, top);
  ctx.stroke();
  ctx.font = axisFont({ host, rem: rem * ratio });
  const padding = 0.25 * rem * ratio;
  const height = 1.15 * rem * ratio;
  ctx.fillRect(right + padding, top - height / 2, ctx.measureText(label).width + 2 * padding, height);
  ctx.fillStyle = cssColour(host, '--accent-ink')();
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  ctx.fillText(label, right + 2 * padding, top);
  ctx.restore();
}
