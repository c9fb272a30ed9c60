/** Size of a burst: the messages of this time. */
const BURST_MS = 2_000;
/** Tolerance for rounding errors in sums of intervals. */
const ROUNDING_MS = 0.0005;

/** Token bucket of one client, with bursts of two seconds' worth. Its state is the time at which it is full again. */
export class TokenBucket {
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
