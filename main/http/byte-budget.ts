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
   * Takes `bytes` from the budget for a client. Takes nothing and returns false if the client would then hold more
   * bytes than stay free, so that large bodies leave room for small bodies.
   *
   * @param held number of bytes that the client already holds
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
