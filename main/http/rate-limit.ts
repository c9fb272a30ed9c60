import { TokenBucket } from './token-bucket.ts';

/** Rate limit with one token bucket per address. A full bucket holds the tokens of one minute. */
export class RateLimit {
  readonly #perMinute: number;
  readonly #maxAddresses: number;
  readonly #buckets = new Map<string, TokenBucket>();

  /** @param maxAddresses number of buckets beyond which the least recently used bucket is evicted */
  constructor({ perMinute, maxAddresses = 100_000 }: { perMinute: number; maxAddresses?: number }) {
    this.#perMinute = perMinute;
    this.#maxAddresses = maxAddresses;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Takes a token. Returns 0, or the milliseconds until the next token. @param now monotonic time in milliseconds */
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
