/** Returns a function that reads the current value of a CSS variable, for drawing on a canvas. */
export const cssColour = (element: Element, name: string) => () =>
  getComputedStyle(element).getPropertyValue(name).trim();

/** Calls `repaint` when the system's colour scheme, the forced colours or the chosen theme changes. */
export function onColourChange(repaint: () => void): void {
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) {
    matchMedia(query).addEventListener('change', repaint);
  }
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ['data-theme'] });
}
