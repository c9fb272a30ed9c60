/**
 * Longest time from a tick's due time to its arrival. Ticks are due at whole multiples of the interval of the wall
 * clock. Their timestamp is the second of the due time.
 */
export class TickLateness {
  readonly #intervalMs: number;
  #dueMs: number | undefined;
  worstMs = 0;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /**
   * Records a tick. After a skipped tick, the rest of that second's ticks count as late.
   *
   * @param second the tick's timestamp
   * @param nowMs time of its arrival, in milliseconds since the epoch
   */
  record(second: number, nowMs: number): void {
    const latest = Math.floor(nowMs / this.#intervalMs) * this.#intervalMs;
    const next = this.#dueMs === undefined ? latest : Math.max(this.#dueMs + this.#intervalMs, second * 1000);
    this.#dueMs = Math.min(next, latest);
    this.worstMs = Math.max(this.worstMs, nowMs - this.#dueMs);
  }

  /** Resets the longest time. */
  reset(): void {
    this.worstMs = 0;
  }
}
