import type { HandlersManifest } from '../../../workers/handlers-manifest.ts';
import { actionOf } from '../../../workers/parse-submission.ts';
import type { Outcome } from '../pool/worker-pool.ts';
import type { Delivery, Failure, Settlement, SettlementOf } from '../queue/queue.ts';

export const retryPolicy = {
  /** Maximum number of attempts per task, including the first. */
  maxAttempts: 5,
  /** Number of crashes (deaths of the thread or process during an attempt) after which a task is discarded. */
  maxCrashes: 2,
  /** Maximum delay before the first retry. The maximum doubles with each further retry, up to `maxDelayMs`. */
  baseDelayMs: 1000,
  maxDelayMs: 60_000,
};

export type RetryPolicy = typeof retryPolicy;

type Attempts = Pick<Delivery, 'attempt' | 'crashes'>;

/** Returns a function that looks up a task's retry policy by the task's message body. */
export function retryPolicies(actions: HandlersManifest): (body: string) => RetryPolicy {
  const policies = new Map<string | undefined, RetryPolicy>();
  for (const [action, { maxAttempts }] of actions) {
    if (maxAttempts !== undefined) policies.set(action, { ...retryPolicy, maxAttempts });
  }
  return (body) => (policies.size > 0 && policies.get(actionOf(body))) || retryPolicy;
}

/** Returns how to settle a delivery, depending on the outcome of its run. */
export function decide(delivery: Attempts, outcome: Outcome, policy: RetryPolicy = retryPolicy): Settlement {
  switch (outcome.ended) {
    case 'returned':
      return { kind: 'ack' };
    case 'raised': {
      const { permanent, reason, retryAfterMs } = outcome;
      const settlement = decideRetry(delivery, permanent ? 'permanent' : 'transient', reason, policy);
      const isDelayGiven = settlement.kind === 'retry' && retryAfterMs !== undefined;
      return isDelayGiven ? { ...settlement, delayMs: retryAfterMs } : settlement;
    }
    case 'crashed':
      return decideRetry(delivery, 'crash', outcome.reason, policy);
    case 'cancelled':
      return { kind: 'cancel' };
    case 'unstored':
    case 'interrupted':
      return { kind: 'release' };
  }
}

/** Returns a discard if the failure is permanent or no attempts are left, otherwise a retry after a random delay. */
export function decideRetry(
  { attempt, crashes }: Attempts,
  failure: Failure,
  reason: string,
  policy = retryPolicy,
  random = Math.random,
): SettlementOf<'retry' | 'discard'> {
  const crashed = failure === 'crash';
  if (failure === 'permanent' || attempt >= policy.maxAttempts || (crashed && crashes + 1 >= policy.maxCrashes)) {
    return { kind: 'discard', attempts: attempt, reason, failure };
  }
  const bound = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1));
  return { kind: 'retry', delayMs: Math.floor(random() * bound), reason, failure };
}

/** Returns a discard if a delivery has no attempts left after a crash of the process, otherwise undefined. */
export function discardExhausted(
  { attempt, crashes }: Attempts,
  policy: RetryPolicy = retryPolicy,
): SettlementOf<'discard'> | undefined {
  if (crashes < policy.maxCrashes && attempt <= policy.maxAttempts) return undefined;
  const reason = 'the process died while the task was running, and no attempt is left';
  return { kind: 'discard', attempts: attempt - 1, reason, failure: 'crash' };
}
