/** Maximum number of names per counter. Events with further names are counted as {@link OTHERS}. */
const MAX_NAMES = 100;
const OTHERS = 'other';

/** Counts events by name, which becomes the metric's label value. */
export class CounterByLabel {
  readonly #counts = new Map<string, number>();

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
