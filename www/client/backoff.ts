const BASE_MS = 1_000;
const CAP_MS = 15_000;

/** Returns an exponential backoff with full jitter, in milliseconds. @param failures 0 after the first failure */
export function backoff(failures: number, random: () => number = Math.random): number {
  return random() * Math.min(CAP_MS, BASE_MS * 2 ** failures);
}
