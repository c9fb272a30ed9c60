/** Longest wait for a token, in milliseconds, that counts as 0, because it may be a rounding error. */
export const ROUNDING_MS = 0.01;

/** Token bucket that stores only the time at which it will be full (the generic cell rate algorithm). */
export class TokenBucket {
  readonly #intervalMs: number;
  readonly #burstMs: number;
  #fullAt = Number.NEGATIVE_INFINITY;

  /** @param burstSeconds size of the bucket, given as the time it takes to fill */
  constructor(perSecond: number, burstSeconds: number) {
    this.#intervalMs = 1000 / perSecond;
    this.#burstMs = burstSeconds * 1000;
  }

  /** Takes a token. Returns 0, or the milliseconds until the next token. @param now monotonic time in milliseconds */
  take(now: number): number {
    const fullAt = Math.max(now, this.#fullAt) + this.#intervalMs;
    const wait = fullAt - now - this.#burstMs;
    if (wait > ROUNDING_MS) return wait;
    this.#fullAt = fullAt;
    return 0;
  }
}
