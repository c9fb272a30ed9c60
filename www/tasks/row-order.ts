/** Inserts those ids of `shown` into `listed` for which `isKept` is true, at their previous positions. */
export function orderRows(listed: readonly string[], shown: readonly string[], isKept: (id: string) => boolean) {
  const known = new Set(listed);
  const order = [...listed];
  for (const [index, id] of shown.entries()) {
    if (!known.has(id) && isKept(id)) order.splice(Math.min(index, order.length), 0, id);
  }
  return order;
}
