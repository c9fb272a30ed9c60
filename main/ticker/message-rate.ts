/** Size of a burst: the messages of this time. */
const BURST_MS = 2_000;
/** Tolerance for rounding errors in sums of intervals. */
const ROUNDING_MS = 0.0005;

/**
 * Token bucket for the messages of one client: `perSecond` on average, with bursts of two seconds' worth. The whole state is the time at
 * which the bucket is full again, so it needs no timer.
 */
export class MessageRate {
  readonly #intervalMs: number;
  #fullAt = Number.NEGATIVE_INFINITY;

  constructor(perSecond: number) {
    this.#intervalMs = 1000 / perSecond;
  }

  /** Counts a message. @param now milliseconds of a monotonic clock @returns whether it is within the limit */
  take(now: number): boolean {
    const fullAt = Math.max(this.#fullAt, now) + this.#intervalMs;
    if (fullAt - now > BURST_MS + ROUNDING_MS) return false;
    this.#fullAt = fullAt;
    return true;
  }
}
