export class Operations {
  readonly #operations = new Set<Promise<void>>();

  /** Adds an operation, which is removed when it ends. Returns the same promise. */
  track<T>(operation: Promise<T>): Promise<T> {
    const untrack = () => void this.#operations.delete(tracked);
    const tracked: Promise<void> = operation.then(untrack, untrack);
    this.#operations.add(tracked);
    return operation;
  }

  /** Waits until all operations have ended, including operations added during the wait. Never rejects. */
  async settled(): Promise<void> {
    while (this.#operations.size > 0) await Promise.all(this.#operations);
  }
}
