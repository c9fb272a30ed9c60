import type { Delivery, Verdict } from './queue/driver.ts';

/** How an attempt failed. */
export type Failure =
  | { failure: 'transient'; reason: string }
  | { failure: 'permanent'; reason: string }
  /** The thread died while it worked on this delivery. */
  | { failure: 'crash'; reason: string };

export interface RetryPolicy {
  /** Attempts at one task, the first included. */
  maxAttempts: number;
  /** Attempts that may end with the death of their thread. */
  maxCrashes: number;
  /** Longest wait after the first attempt; it doubles with each further one. */
  baseDelayMs: number;
  maxDelayMs: number;
}

export const retryPolicy: RetryPolicy = { maxAttempts: 5, maxCrashes: 2, baseDelayMs: 1000, maxDelayMs: 60_000 };

/**
 * What becomes of a delivery that failed: another attempt after a wait drawn evenly between nothing and an
 * exponentially growing bound (full jitter), or the dead letters.
 */
export function judge(
  { attempt, crashes }: Pick<Delivery, 'attempt' | 'crashes'>,
  { failure, reason }: Failure,
  policy: RetryPolicy = retryPolicy,
  random: () => number = Math.random,
): Verdict {
  const crashed = failure === 'crash';
  if (failure === 'permanent' || attempt >= policy.maxAttempts || (crashed && crashes + 1 >= policy.maxCrashes)) {
    return { verdict: 'dead', reason };
  }
  const bound = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1));
  return { verdict: 'retry', delayMs: Math.floor(random() * bound), reason, crashed };
}
