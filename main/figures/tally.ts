/** Most names that one tally tells apart. */
const MAX_NAMES = 100;
/** Stands for all names past these. */
const OTHERS = 'other';

/** How often each of a few things happened, by name. */
export class Tally {
  readonly #counts = new Map<string, number>();

  /** @param names that are to be there from the beginning, with 0 */
  constructor(names: readonly string[] = []) {
    for (const name of names) this.#counts.set(name, 0);
  }

  count(name: string): void {
    const known = this.#counts.has(name) || this.#counts.size < MAX_NAMES ? name : OTHERS;
    this.#counts.set(known, (this.#counts.get(known) ?? 0) + 1);
  }

  entries(): IterableIterator<[name: string, count: number]> {
    return this.#counts.entries();
  }
}
