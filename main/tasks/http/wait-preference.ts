import type { IncomingHttpHeaders } from 'node:http';

/** Upper bound on the `wait` preference. */
const LONGEST_WAIT_SECONDS = 30;

/**
 * Returns the seconds that a client prefers to wait for its task to finish (`Prefer: wait=10`, RFC 7240), 30 at most. 0 if the
 * preference is absent or malformed, because a preference never makes a request fail.
 */
export function preferredWait(headers: IncomingHttpHeaders): number {
  const { prefer } = headers;
  if (prefer === undefined) return 0;
  const preferences = (typeof prefer === 'string' ? prefer : prefer.join()).split(',');
  for (const preference of preferences) {
    const [, seconds] = /^\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;.*)?$/i.exec(preference) ?? [];
    if (seconds !== undefined) return Math.min(Number(seconds), LONGEST_WAIT_SECONDS);
  }
  return 0;
}
