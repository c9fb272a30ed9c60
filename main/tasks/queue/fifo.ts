/** Minimum number of removed items before the array is copied without them. */
const SLACK = 1024;

/** A queue with `push` and `shift` in constant time; `Array.shift` takes longer in long arrays. */
export class Fifo<T> {
  #items: T[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Reinserts a removed item, after the items at the head for which `precedes` returns true. */
  putBack(item: T, precedes: (other: T) => boolean): void {
    let index = this.#head;
    while (index < this.#items.length && precedes(this.#items[index] as T)) index++;
    if (this.#head === 0) {
      this.#items.splice(index, 0, item);
      return;
    }
    // Uses the place of a removed item, so that the items behind `index` need not be moved.
    this.#items.copyWithin(this.#head - 1, this.#head, index);
    this.#items[index - 1] = item;
    this.#head -= 1;
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#head] as T;
    // Removes the array's reference to the item, so that the memory of a large message can be freed.
    this.#items[this.#head++] = undefined as T;
    if (this.#head >= SLACK && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}
