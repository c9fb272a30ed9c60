/** Returns whether any of the texts contains `q`, ignoring case. */
export function holdsText(texts: readonly (string | null | undefined)[], q: string): boolean {
  const wanted = q.trim().toLowerCase();
  return wanted === '' || texts.some((text) => text?.toLowerCase().includes(wanted));
}
