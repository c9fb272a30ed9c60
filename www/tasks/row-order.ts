/**
 * Returns the ids in the order in which to show them: those of `listed`, and those of `shown` that are kept although
 * the list no longer has them, at the position that they had.
 */
export function orderRows(listed: readonly string[], shown: readonly string[], isKept: (id: string) => boolean) {
  const known = new Set(listed);
  const order = [...listed];
  for (const [index, id] of shown.entries()) {
    if (!known.has(id) && isKept(id)) order.splice(Math.min(index, order.length), 0, id);
  }
  return order;
}
