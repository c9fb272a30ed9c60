import type { Limit } from '../client/limits.ts';
import type { TaskLimit } from '../client/task-state.ts';
import { formatClock, formatCount } from './amounts.ts';

/** Characters of a key that are shown, so that what follows is visible. */
const MAX_KEY_LENGTH = 32;

/** Says why a task waits for a limit: `acme: 5 of 5 running` or `acme: next start 14:03:05`. */
export function limitText({ action, key = action, concurrency, running, next_start_at_ms: nextMs }: TaskLimit): string {
  const name = key.length > MAX_KEY_LENGTH ? `${key.slice(0, MAX_KEY_LENGTH)}…` : key;
  if (nextMs !== undefined) return `${name}: next start ${formatClock(nextMs, false)}`;
  if (concurrency === undefined) return name;
  // A task that waits to be started holds its place already.
  const rest = running < concurrency ? ', the rest reserved' : '';
  return `${name}: ${formatCount(running)} of ${formatCount(concurrency)} running${rest}`;
}

/** Describes a limit as `5 at once, 100 in 60 s`. */
export function describeLimit({ concurrency, rate }: Limit): string {
  const parts = [concurrency !== undefined && `${formatCount(concurrency)} at once`, rate && rateText(rate)];
  return parts.filter(Boolean).join(', ');
}

function rateText({ count, seconds }: { count: number; seconds: number }): string {
  return `${formatCount(count)} in ${seconds.toLocaleString('en-US', { maximumFractionDigits: 3 })} s`;
}
