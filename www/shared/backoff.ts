const BASE_MS = 1_000;
const CAP_MS = 15_000;

/**
 * Delay in milliseconds before the next attempt: exponential backoff with full jitter, so that clients do not reconnect all at once.
 *
 * @param failures consecutive failed attempts, 0 for the first
 */
export function backoff(failures: number, random: () => number = Math.random): number {
  return random() * Math.min(CAP_MS, BASE_MS * 2 ** failures);
}
