import type { IncomingHttpHeaders } from 'node:http';

/** The longest that an answer is waited for. */
const LONGEST_WAIT_SECONDS = 30;

/**
 * For how many seconds a client prefers to wait for the end of its task (`Prefer: wait=10`, RFC 7240), 30 at most; 0 where it
 * does not, or says so in a way that cannot be understood: a preference never makes a request fail.
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
