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

/** Calls `repaint` when the system's colour scheme, the forced colours or the chosen theme changes. */
export function onColourChange(repaint: () => void): void {
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) {
    matchMedia(query).addEventListener('change', repaint);
  }
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ['data-theme'] });
}
