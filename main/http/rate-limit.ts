const MINUTE_MS = 60_000;
/** Tolerance for rounding errors in sums of intervals. */
const ROUNDING_MS = 0.01;

/** Rate limit with a token bucket for each address, without timers (the generic cell rate algorithm). */
export class RateLimit {
  readonly #intervalMs: number;
  readonly #maxAddresses: number;
  /** Time at which the bucket of each address will be full again. Least recently used first. */
  readonly #fullAt = new Map<string, number>();

  /**
   * @param perMinute tokens that an address gets each minute, and size of its bucket
   * @param maxAddresses bound on the stored buckets; the least recently used one is evicted
   */
  constructor({ perMinute, maxAddresses = 100_000 }: { perMinute: number; maxAddresses?: number }) {
    this.#intervalMs = MINUTE_MS / perMinute;
    this.#maxAddresses = maxAddresses;
  }

  get size(): number {
    return this.#fullAt.size;
  }

  /**
   * Takes a token from the bucket of `address`.
   *
   * @param now milliseconds of a monotonic clock
   * @returns 0, or if the bucket is empty, the milliseconds until its next token
   */
  take(address: string, now = performance.now()): number {
    const fullAt = Math.max(now, this.#fullAt.get(address) ?? 0) + this.#intervalMs;
    const wait = fullAt - now - MINUTE_MS;
    if (wait > ROUNDING_MS) return wait;
    this.#fullAt.delete(address);
    this.#fullAt.set(address, fullAt);
    if (this.#fullAt.size > this.#maxAddresses) {
      const [leastRecent] = this.#fullAt.keys();
      this.#fullAt.delete(leastRecent as string);
    }
    return 0;
  }
}
