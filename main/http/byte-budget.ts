/** Limit on the bytes that all clients of a listener hold together. Bytes taken must be released. */
export class ByteBudget {
  readonly limit: number;
  #used = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * Takes `bytes` more for a client that holds `held` bytes, or returns false. A client may not hold more than remains free, so
   * slow clients with large bodies always leave room for small ones.
   */
  take(bytes: number, held = 0): boolean {
    const left = this.limit - this.#used - bytes;
    if (held + bytes > left) return false;
    this.#used += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#used -= bytes;
  }
}
