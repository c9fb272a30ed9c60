/** Returns a function that reads the current value of a CSS variable at an element, for code that draws on a canvas. */
export const cssColour = (element: Element, name: string) => () =>
  getComputedStyle(element).getPropertyValue(name).trim();

/** Calls `repaint` when the colours change: with the system's scheme, forced colours, or the theme that the user chooses. */
export function onColourChange(repaint: () => void): void {
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) {
    matchMedia(query).addEventListener('change', repaint);
  }
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ['data-theme'] });
}
