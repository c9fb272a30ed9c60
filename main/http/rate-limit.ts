import { TokenBucket } from './token-bucket.ts';

/** Rate limit with one token bucket per address. A full bucket holds one minute's worth of tokens. */
export class RateLimit {
  readonly #perMinute: number;
  readonly #maxAddresses: number;
  /** Token buckets by address, least recently used first. */
  readonly #buckets = new Map<string, TokenBucket>();

  /**
   * @param perMinute number of tokens that each address gets per minute
   * @param maxAddresses maximum number of buckets; beyond it, the least recently used bucket is evicted
   */
  constructor({ perMinute, maxAddresses = 100_000 }: { perMinute: number; maxAddresses?: number }) {
    this.#perMinute = perMinute;
    this.#maxAddresses = maxAddresses;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /**
   * Takes a token from the bucket of `address`, if it has one.
   *
   * @param now current time of a monotonic clock in milliseconds
   * @returns 0, or the milliseconds until the next token if the bucket is empty
   */
  take(address: string, now = performance.now()): number {
    const bucket = this.#buckets.get(address) ?? new TokenBucket(this.#perMinute / 60, 60);
    const wait = bucket.take(now);
    if (wait > 0) return wait;
    this.#buckets.delete(address);
    this.#buckets.set(address, bucket);
    if (this.#buckets.size > this.#maxAddresses) {
      const [leastRecent] = this.#buckets.keys();
      this.#buckets.delete(leastRecent as string);
    }
    return 0;
  }
}
