const BASE_MS = 1_000;
const CAP_MS = 15_000;

/**
 * Returns the delay in milliseconds before the next attempt: exponential backoff with full jitter.
 *
 * @param failures number of consecutive failures before the latest failure, so 0 after the first one
 */
export function backoff(failures: number, random: () => number = Math.random): number {
  return random() * Math.min(CAP_MS, BASE_MS * 2 ** failures);
}
