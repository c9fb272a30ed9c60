/** Limit on the total bytes that a listener keeps in memory for its clients. Every byte taken must be released. */
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
   * Takes `bytes` for a client that already holds `held` bytes. Takes nothing and returns false if the client would
   * then hold more bytes than remain free. Slow clients with large bodies therefore leave room for small bodies.
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
