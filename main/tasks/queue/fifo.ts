const COMPACTION_THRESHOLD = 1024;

/** Queue with `push` and `shift` in constant time. `Array.shift` is slower for long arrays. */
export class Fifo<T> {
  #items: T[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  first(max: number): T[] {
    return this.#items.slice(this.#head, this.#head + max);
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Reinserts a removed item after all leading items for which `precedes` returns true. */
  putBack(item: T, precedes: (other: T) => boolean): void {
    let index = this.#head;
    while (index < this.#items.length && precedes(this.#items[index] as T)) index++;
    if (this.#head === 0) {
      this.#items.splice(index, 0, item);
      return;
    }
    // Frees the slot before `index` by moving all items in front of `index` one slot towards the head.
    this.#items.copyWithin(this.#head - 1, this.#head, index);
    this.#items[index - 1] = item;
    this.#head -= 1;
  }

  delete(item: T): void {
    const index = this.#items.indexOf(item, this.#head);
    if (index >= 0) this.#items.splice(index, 1);
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#head] as T;
    // Clears the array's reference to the item, so that the memory of a large message can be freed.
    this.#items[this.#head++] = undefined as T;
    if (this.#head >= COMPACTION_THRESHOLD && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}
