import { isIPv6 } from 'node:net';

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

export type RateLimit = ReturnType<typeof rateLimit>;

/**
 * Returns a rate limit with one token bucket per address. A full bucket holds the tokens of one minute.
 *
 * @param maxAddresses number of buckets beyond which the least recently used bucket is evicted
 */
export function rateLimit({ perMinute, maxAddresses = 100_000 }: { perMinute: number; maxAddresses?: number }) {
  const buckets = new Map<string, TokenBucket>();
  return {
    get size(): number {
      return buckets.size;
    },
    take(address: string, now = performance.now()): number {
      const bucket = buckets.get(address) ?? new TokenBucket(perMinute / 60, 60);
      const wait = bucket.take(now);
      if (wait > 0) return wait;
      buckets.delete(address);
      buckets.set(address, bucket);
      const [leastRecent] = buckets.size > maxAddresses ? buckets.keys() : [];
      if (leastRecent !== undefined) buckets.delete(leastRecent);
      return 0;
    },
  };
}

const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const NETWORK_HEXTETS = 4;

/** Returns the key for per-address limits: for IPv6 the /64 network, because a host can use any of its addresses. */
export function rateLimitKey(ip: string): string {
  const address = ip.replace(/%.*$/, '');
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address) || address === '::1') return address;
  // The URL parser returns the canonical form, with at most one `::` and no dotted IPv4 part.
  const [left = '', right] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const before = left.split(':').filter(Boolean);
  const after = (right ?? '').split(':').filter(Boolean);
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return `${[...before, ...zeros, ...after].slice(0, NETWORK_HEXTETS).join(':')}::/64`;
}
