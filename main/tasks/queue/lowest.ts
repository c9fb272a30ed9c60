/** Returns the `max` items with the lowest keys, in ascending order. */
export function lowest<T>(items: Iterable<T>, max: number, keyOf: (item: T) => number): T[] {
  const found: T[] = [];
  const keys: number[] = [];
  for (const item of items) {
    const key = keyOf(item);
    if (found.length === max && key >= (keys[max - 1] as number)) continue;
    let index = keys.length;
    while (index > 0 && (keys[index - 1] as number) > key) index--;
    found.splice(index, 0, item);
    keys.splice(index, 0, key);
    if (found.length > max) {
      found.pop();
      keys.pop();
    }
  }
  return found;
}
