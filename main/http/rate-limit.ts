import { TokenBucket } from './token-bucket.ts';

/** Rate limit with a token bucket for each address. A bucket holds the tokens of a minute. */
export class RateLimit {
  readonly #perMinute: number;
  readonly #maxAddresses: number;
  /** Token bucket of each address. The least recently used address is first. */
  readonly #buckets = new Map<string, TokenBucket>();

  /**
   * @param perMinute number of tokens that each address gets per minute
   * @param maxAddresses maximum number of stored buckets; beyond it, the least recently used bucket is evicted
   */
  constructor({ perMinute, maxAddresses = 100_000 }: { perMinute: number; maxAddresses?: number }) {
    this.#perMinute = perMinute;
    this.#maxAddresses = maxAddresses;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /**
   * Takes a token from the bucket of `address`.
   *
   * @param now current time of a monotonic clock in milliseconds
   * @returns 0, or if the bucket is empty, the milliseconds until its next token
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
