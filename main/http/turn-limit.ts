/** Limits the total cost of the work begun in one event loop turn. */
export class TurnLimit {
  readonly #limit: number;
  #spent = 0;
  readonly #waiting: { cost: number; begin: () => void }[] = [];
  #isNextTurnScheduled = false;

  /** @param limit maximum total cost per event loop turn; only the last piece of work may exceed it */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Returns whether work of this cost may begin in this event loop turn. If so, counts the cost. */
  take(cost: number): boolean {
    if (this.#waiting.length > 0 || this.#spent >= this.#limit) return false;
    this.#spent += cost;
    this.#scheduleNextTurn();
    return true;
  }

  /** Calls `begin` in a later event loop turn, as soon as the limit allows. Deferred work begins in call order. */
  defer(cost: number, begin: () => void): void {
    this.#waiting.push({ cost, begin });
    this.#scheduleNextTurn();
  }

  #scheduleNextTurn(): void {
    if (this.#isNextTurnScheduled) return;
    this.#isNextTurnScheduled = true;
    setImmediate(() => this.#startTurn());
  }

  #startTurn(): void {
    this.#isNextTurnScheduled = false;
    let count = 0;
    for (this.#spent = 0; this.#spent < this.#limit && count < this.#waiting.length; count++) {
      this.#spent += (this.#waiting[count] as { cost: number }).cost;
    }
    const batch = this.#waiting.splice(0, count);
    if (this.#spent > 0) this.#scheduleNextTurn();
    for (const { begin } of batch) begin();
  }
}
