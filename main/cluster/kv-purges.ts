/**
 * Identifiers of tokens whose entries must be purged from the bucket, oldest first. Their number is bounded, because each has an
 * entry there. An identifier is removed only after its purge succeeds, so that the entry cannot become a valid token again.
 */
export class KvPurges {
  readonly #purge: (id: string) => Promise<unknown>;
  readonly #delayMs: number;
  /** Monotonic time in milliseconds at which each purge is due, by token identifier. */
  readonly #dueAt = new Map<string, number>();
  readonly #inProgress = new Set<string>();
  #running = false;

  /** @param delayMs time between the call of `add` for an identifier and its purge */
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

  /** Purges the identifiers that are due, one after the other. Stops at the first failed purge, which the next call retries. */
  async run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    for (const [id, dueAt] of this.#dueAt) {
      if (dueAt > performance.now()) break;
      if (!this.#inProgress.has(id) && !(await this.#remove(id))) break;
    }
    this.#running = false;
  }

  /** Purges the oldest identifier, even if it is not due yet, if there are more than `max` identifiers. */
  async trim(max: number): Promise<void> {
    if (this.#dueAt.size - this.#inProgress.size <= max) return;
    for (const id of this.#dueAt.keys()) if (!this.#inProgress.has(id)) return void (await this.#remove(id));
  }

  clear(): void {
    this.#dueAt.clear();
  }

  /** Purges the entry of an identifier. @returns whether the purge succeeded */
  async #remove(id: string): Promise<boolean> {
    this.#inProgress.add(id);
    try {
      await this.#purge(id);
      this.#dueAt.delete(id);
      return true;
    } catch {
      return false;
    } finally {
      this.#inProgress.delete(id);
    }
  }
}
