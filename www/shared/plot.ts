import type uPlot from 'uplot';
import { cssColour } from './canvas-colours.ts';

/** Steps of 1, 2 and 5 times a power of ten, because uPlot's default steps include 2.5. */
const VALUE_STEPS = Array.from({ length: 30 }, (_, index) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${index - 12}`)),
).flat();

/** Size of the root font in pixels. */
export const rootFontSize = () => Number.parseFloat(getComputedStyle(document.documentElement).fontSize);

export const axisFont = (host: HTMLElement, rem: number) => `${0.75 * rem}px ${getComputedStyle(host).fontFamily}`;

/** Options that all plots share, with the special options of the time axis and the value axis. Their crosshairs move together. */
export function plotBase(host: HTMLElement, rem: number, time: uPlot.Axis, value: uPlot.Axis) {
  const axis: uPlot.Axis = {
    stroke: cssColour(host, '--quiet'),
    font: axisFont(host, rem),
    ticks: { show: false },
    border: { show: false },
    gap: 0.4 * rem,
  };
  return {
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      sync: { key: 'time' },
      points: { size: 0.5 * rem, width: 2, fill: cssColour(host, '--surface') },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 1.25 * rem, space: 4 * rem, ...time },
      { ...axis, grid: { stroke: cssColour(host, '--line'), width: 1 }, incrs: VALUE_STEPS, ...value },
    ],
  };
}

export function widestOf({ ctx }: uPlot, texts: readonly string[], font: string): number {
  ctx.font = font;
  return Math.max(0, ...texts.map((text) => ctx.measureText(text).width));
}
