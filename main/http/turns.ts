/** Spreads work over event loop turns, in order of arrival. Unlike {@link Admission}, work below the limit need not wait. */
export class Turns {
  readonly #limit: number;
  /** Cost since work was last deferred, which is at least the cost in this turn. */
  #spent = 0;
  readonly #waiting: { cost: number; begin: () => void }[] = [];

  /** @param limit cost of the work in one turn, which only the last may exceed */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Returns whether work of this cost may begin in this turn, and counts it if so. */
  take(cost: number): boolean {
    if (this.#waiting.length > 0 || this.#spent >= this.#limit) return false;
    this.#spent += cost;
    return true;
  }

  /** Calls `begin` in a later turn. */
  defer(cost: number, begin: () => void): void {
    if (this.#waiting.push({ cost, begin }) === 1) setImmediate(() => this.#beginWaiting());
  }

  #beginWaiting(): void {
    let count = 0;
    for (this.#spent = 0; this.#spent < this.#limit && count < this.#waiting.length; count++) {
      this.#spent += (this.#waiting[count] as { cost: number }).cost;
    }
    const batch = this.#waiting.splice(0, count);
    if (this.#waiting.length > 0) setImmediate(() => this.#beginWaiting());
    for (const { begin } of batch) begin();
  }
}
