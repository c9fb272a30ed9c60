/** Tolerance in milliseconds for floating-point rounding errors in the computed wait. */
export const ROUNDING_MS = 0.01;

/** Token bucket whose only state is the time at which it will be full again (the generic cell rate algorithm). */
export class TokenBucket {
  readonly #intervalMs: number;
  readonly #burstMs: number;
  #fullAt = Number.NEGATIVE_INFINITY;

  /**
   * @param perSecond number of tokens added per second
   * @param burstSeconds size of the bucket, given as the time it takes to fill
   */
  constructor(perSecond: number, burstSeconds: number) {
    this.#intervalMs = 1000 / perSecond;
    this.#burstMs = burstSeconds * 1000;
  }

  /**
   * Takes a token, if the bucket has one.
   *
   * @param now current time of a monotonic clock in milliseconds
   * @returns 0, or the milliseconds until the next token if the bucket is empty
   */
  take(now: number): number {
    const fullAt = Math.max(now, this.#fullAt) + this.#intervalMs;
    const wait = fullAt - now - this.#burstMs;
    if (wait > ROUNDING_MS) return wait;
    this.#fullAt = fullAt;
    return 0;
  }
}
