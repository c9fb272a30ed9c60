const BASE_MS = 1_000;
const CAP_MS = 15_000;

/**
 * How long to wait before a next try: exponential backoff with full jitter, so that clients that lost a service
 * together do not come back together.
 *
 * @param failures tries that failed in a row before, 0 for the first
 */
export function backoff(failures: number, random: () => number = Math.random): number {
  return random() * Math.min(CAP_MS, BASE_MS * 2 ** failures);
}
