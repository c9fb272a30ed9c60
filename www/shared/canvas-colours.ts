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
