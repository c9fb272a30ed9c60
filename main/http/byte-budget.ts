/** Limit on the total bytes kept in memory for a listener's clients. Callers must release all bytes that they take. */
export class ByteBudget {
  readonly limit: number;
  used = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  /**
   * Takes `bytes` for a client that already holds `held` bytes. Returns false if the client would then hold more bytes
   * than the budget has left, so that large bodies leave room for small bodies.
   */
  take(bytes: number, held = 0): boolean {
    const left = this.limit - this.used - bytes;
    if (held + bytes > left) return false;
    this.used += bytes;
    return true;
  }

  release(bytes: number): void {
    this.used -= bytes;
  }
}
