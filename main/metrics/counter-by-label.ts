/** Maximum number of names per counter. Events with other names are counted as {@link OTHERS}. */
const MAX_NAMES = 100;
const OTHERS = 'other';

/** Counts events by name. The name becomes a metric's label value. */
export class CounterByLabel {
  readonly #counts = new Map<string, number>();

  /** @param names names that start with a count of 0 */
  constructor(names: readonly string[] = []) {
    for (const name of names) this.#counts.set(name, 0);
  }

  count(name: string): void {
    const key = this.#counts.has(name) || this.#counts.size < MAX_NAMES ? name : OTHERS;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  [Symbol.iterator](): IterableIterator<[name: string, count: number]> {
    return this.#counts.entries();
  }
}
