import type uPlot from 'uplot';

/** Steps of 1, 2 and 5 times a power of ten, because uPlot's default steps include 2.5. */
const VALUE_STEPS = Array.from({ length: 30 }, (_, index) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${index - 12}`)),
).flat();

/** CSS variables that are registered as colours. */
const registered = new Set<string>();

/** Returns a function that reads the current value of a CSS variable, for drawing on a canvas. */
export function cssColour(element: Element, name: string): () => string {
  // The value of a variable that is no registered colour would be a `light-dark()` expression.
  if (!registered.has(name)) {
    CSS.registerProperty({ name, syntax: '<color>', inherits: true, initialValue: 'transparent' });
  }
  registered.add(name);
  return () => getComputedStyle(element).getPropertyValue(name).trim();
}

/**
 * Calls `repaint` when the system's colour scheme, the forced colours or the chosen theme changes, and for print.
 * @param signal ends the calls
 */
export function onColourChange(repaint: () => void, signal?: AbortSignal): void {
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)', 'print']) {
    matchMedia(query).addEventListener('change', repaint, { ...(signal && { signal }) });
  }
  const observer = new MutationObserver(repaint);
  observer.observe(document.documentElement, { attributeFilter: ['style'] });
  signal?.addEventListener('abort', () => observer.disconnect());
}

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
