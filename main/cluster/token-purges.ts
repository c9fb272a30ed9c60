/**
 * Ids of tokens to purge from the bucket, oldest first. The bucket's size bounds their number, because each id has an entry there.
 * An id is removed only once its purge succeeds, so that the entry cannot become a valid token again.
 */
export class TokenPurges {
  readonly #purge: (id: string) => Promise<unknown>;
  readonly #delayMs: number;
  /** Due time of each purge in monotonic milliseconds, by token id. `Infinity` while the purge is in progress. */
  readonly #dueAt = new Map<string, number>();
  #inProgress = 0;

  /** @param delayMs delay from `add` until the id's purge is due */
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

  /**
   * Purges the ids that are due, one at a time. Stops at a failed purge, which the next call retries, or at a purge already in
   * progress.
   */
  async run(): Promise<void> {
    for (const [id, dueAt] of this.#dueAt) if (dueAt > performance.now() || !(await this.#remove(id))) break;
  }

  /** If more than `max` ids are waiting, purges the oldest one, even if it is not due yet. */
  async trim(max: number): Promise<void> {
    if (this.#dueAt.size - this.#inProgress <= max) return;
    for (const [id, dueAt] of this.#dueAt) if (Number.isFinite(dueAt)) return void (await this.#remove(id));
  }

  clear(): void {
    this.#dueAt.clear();
  }

  /** Purges an id's entry. @returns whether the purge succeeded */
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
