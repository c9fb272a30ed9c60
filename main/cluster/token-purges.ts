/**
 * Purges entries from the KV bucket of tokens, oldest first. Retries a failed purge, because an evicted token would
 * become valid again if its entry stayed in the bucket.
 */
export class TokenPurges {
  readonly #purge: (id: string) => Promise<unknown>;
  readonly #delayMs: number;
  /** Time to purge each token's entry, in monotonic milliseconds, by token id. `Infinity` while the purge runs. */
  readonly #dueAt = new Map<string, number>();
  #inProgress = 0;

  /** @param delayMs delay between `add` and the purge */
  constructor(purge: (id: string) => Promise<unknown>, delayMs: number) {
    this.#purge = purge;
    this.#delayMs = delayMs;
  }

  has(id: string): boolean {
    return this.#dueAt.has(id);
  }

  add(id: string): void {
    if (!this.#dueAt.has(id)) this.#dueAt.set(id, performance.now() + this.#delayMs);
  }

  /** Purges the entries that are due, one at a time. Stops at the first failure, which the next call retries. */
  async run(): Promise<void> {
    for (const [id, dueAt] of this.#dueAt) if (dueAt > performance.now() || !(await this.#remove(id))) break;
  }

  /** Purges the oldest waiting entry early if more than `max` entries are waiting. */
  async trim(max: number): Promise<void> {
    if (this.#dueAt.size - this.#inProgress <= max) return;
    for (const [id, dueAt] of this.#dueAt) if (Number.isFinite(dueAt)) return void (await this.#remove(id));
  }

  clear(): void {
    this.#dueAt.clear();
  }

  /** Returns whether the purge succeeded. */
  async #remove(id: string): Promise<boolean> {
    this.#inProgress += 1;
    this.#dueAt.set(id, Number.POSITIVE_INFINITY);
    try {
      await this.#purge(id);
      this.#dueAt.delete(id);
      return true;
    } catch {
      this.#dueAt.set(id, performance.now());
      return false;
    } finally {
      this.#inProgress -= 1;
    }
  }
}
