/** Messages of so long a time may come at once. */
const BURST_MS = 2_000;
/** Tolerance: sums of intervals are not exact. */
const ROUNDING_MS = 0.0005;

/**
 * Bounds what one client may send: `perSecond` messages in the long run, those of two seconds at once. A token bucket
 * that is one number, the time at which it will be full again; it needs no timer.
 */
export class MessageRate {
  readonly #intervalMs: number;
  #fullAt = Number.NEGATIVE_INFINITY;

  constructor(perSecond: number) {
    this.#intervalMs = 1000 / perSecond;
  }

  /** Counts a message at `now` (milliseconds of a clock that nobody sets). @returns whether it is within the bound */
  allows(now: number): boolean {
    const fullAt = Math.max(this.#fullAt, now) + this.#intervalMs;
    if (fullAt - now > BURST_MS + ROUNDING_MS) return false;
    this.#fullAt = fullAt;
    return true;
  }
}
