const BASE_MS = 1_000;
const CAP_MS = 15_000;

/**
 * Returns the number of milliseconds to wait before the next attempt. Exponential backoff with full jitter keeps clients from
 * reconnecting all at once.
 *
 * @param failures number of consecutive failures before the latest one: 0 after the first failure
 */
export function backoff(failures: number, random: () => number = Math.random): number {
  return random() * Math.min(CAP_MS, BASE_MS * 2 ** failures);
}
