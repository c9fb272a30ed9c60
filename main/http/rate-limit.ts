const MINUTE_MS = 60_000;
/** Sums of intervals are not exact. */
const ROUNDING_MS = 0.01;

export interface RateLimitOptions {
  /** What one address may do in a minute, all of it at once if it likes. */
  perMinute: number;
  /** Addresses that are remembered; past it the one that has been quiet longest is forgotten. */
  maxAddresses?: number;
}

/**
 * Limits how often an address may do something: a bucket each that fills steadily, kept as the one moment at which it
 * would be full (the generic cell rate algorithm), without timers.
 */
export class RateLimit {
  readonly #intervalMs: number;
  readonly #maxAddresses: number;
  /** When the bucket of each address is full again, the address that was heard of last at the end. */
  readonly #fullAt = new Map<string, number>();

  constructor({ perMinute, maxAddresses = 100_000 }: RateLimitOptions) {
    this.#intervalMs = MINUTE_MS / perMinute;
    this.#maxAddresses = maxAddresses;
  }

  get size(): number {
    return this.#fullAt.size;
  }

  /**
   * Takes one from the bucket of `address`.
   *
   * @param now milliseconds of a clock that is not set back
   * @returns 0, or how many milliseconds the address has to wait because its bucket is empty
   */
  take(address: string, now = performance.now()): number {
    const fullAt = Math.max(now, this.#fullAt.get(address) ?? 0) + this.#intervalMs;
    const wait = fullAt - now - MINUTE_MS;
    if (wait > ROUNDING_MS) return wait;
    this.#fullAt.delete(address);
    this.#fullAt.set(address, fullAt);
    if (this.#fullAt.size > this.#maxAddresses) {
      const [quietest] = this.#fullAt.keys();
      this.#fullAt.delete(quietest as string);
    }
    return 0;
  }
}
