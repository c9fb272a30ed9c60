/**
 * Returns the ids of the table rows in order: the listed ids, and at their previous positions the shown ids that are no
 * longer listed but for which `isKept` returns true.
 */
export function orderRows(listed: readonly string[], shown: readonly string[], isKept: (id: string) => boolean) {
  const known = new Set(listed);
  const order = [...listed];
  for (const [index, id] of shown.entries()) {
    if (!known.has(id) && isKept(id)) order.splice(Math.min(index, order.length), 0, id);
  }
  return order;
}
