interface Entry {
  id: string;
  order: number;
}

/** The tokens of one API key in the order of eviction: by `order`, and by id if two tokens have the same `order`. */
export class EvictionOrder {
  /** Entries in the order of eviction. The first {@link #removed} entries have been removed. */
  readonly #entries: Entry[] = [];
  #removed = 0;

  get size(): number {
    return this.#entries.length - this.#removed;
  }

  /** Id of the token to evict next. */
  get oldest(): string | undefined {
    return this.#entries[this.#removed]?.id;
  }

  /** The `order` of the newest token, or 0 if there are no tokens. */
  get newestOrder(): number {
    return this.size === 0 ? 0 : (this.#entries.at(-1)?.order ?? 0);
  }

  add(id: string, order: number): void {
    // Searches from the end, because almost every added token is the newest.
    const previous = this.#entries.findLastIndex(
      (other) => other.order < order || (other.order === order && other.id < id),
    );
    const index = Math.max(previous + 1, this.#removed);
    if (index === this.#entries.length) this.#entries.push({ id, order });
    else this.#entries.splice(index, 0, { id, order });
  }

  remove(id: string): void {
    if (id !== this.oldest) {
      const index = this.#entries.findIndex((entry, at) => at >= this.#removed && entry.id === id);
      if (index >= 0) this.#entries.splice(index, 1);
      return;
    }
    this.#removed += 1;
    // Moves the other entries only after every few removals, because moving up to 100,000 entries each time is slow.
    if (this.#removed * 4 > this.#entries.length) {
      this.#entries.splice(0, this.#removed);
      this.#removed = 0;
    }
  }
}
