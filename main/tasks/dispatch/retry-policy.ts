import type { Delivery, Failure, Message, Settlement, SettlementOf } from '../../../db/task-store.ts';
import type { Clock, Random } from '../../../workers/shared/clock.ts';
import { actionOf } from '../../../workers/submissions/parse-submission.ts';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import type { Outcome } from '../pool/task-pool.ts';

export const retryPolicy = {
  /** Maximum number of attempts per task, including the first. */
  maxAttempts: 5,
  /** Number of crashes (deaths of the thread during an attempt) after which a task is discarded. */
  maxCrashes: 2,
  /** Maximum delay before the first retry. The maximum doubles with each further retry, up to `maxDelayMs`. */
  baseDelayMs: 1000,
  maxDelayMs: 60_000,
};

export type RetryPolicy = typeof retryPolicy;

type Attempts = Pick<Delivery, 'attempt' | 'crashes'>;

export interface TimeAndChance {
  clock: Pick<Clock, 'now'>;
  random: Pick<Random, 'number'>;
}

/** Returns a function that looks up a task's retry policy. */
export function retryPolicies(actions: HandlersManifest): (task: Pick<Message, 'action' | 'body'>) => RetryPolicy {
  const policies = new Map<string | undefined, RetryPolicy>();
  for (const [action, { maxAttempts }] of actions) {
    if (maxAttempts !== undefined) policies.set(action, { ...retryPolicy, maxAttempts });
  }
  return (task) => (policies.size > 0 && policies.get(actionOf(task))) || retryPolicy;
}

/** Returns how to settle a delivery, depending on the outcome of its run. */
export function decide(
  delivery: Attempts,
  outcome: Outcome,
  timeAndChance: TimeAndChance,
  policy: RetryPolicy = retryPolicy,
): Settlement {
  switch (outcome.ended) {
    case 'returned':
      return { kind: 'complete', result: `{"output":${outcome.output}}` };
    case 'raised': {
      const { permanent, reason, retryAfterMs } = outcome;
      const failure = permanent ? 'permanent' : 'transient';
      return decideRetry(delivery, failure, reason, timeAndChance, policy, retryAfterMs);
    }
    case 'crashed':
      return decideRetry(delivery, 'crash', outcome.reason, timeAndChance, policy);
    case 'cancelled':
      return { kind: 'cancel' };
    case 'released':
      return { kind: 'release' };
  }
}

/** Returns a discard if the failure is permanent or no attempts are left, otherwise a retry after a random delay. */
export function decideRetry(
  { attempt, crashes }: Attempts,
  failure: Failure,
  reason: string,
  { clock, random }: TimeAndChance,
  policy = retryPolicy,
  retryAfterMs?: number,
): SettlementOf<'retry' | 'discard'> {
  const hasCrashedTooOften = failure === 'crash' && crashes + 1 >= policy.maxCrashes;
  if (failure === 'permanent' || attempt >= policy.maxAttempts || hasCrashedTooOften)
    return { kind: 'discard', reason, failure };
  const bound = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1));
  const delayMs = retryAfterMs ?? Math.floor(random.number() * bound);
  return { kind: 'retry', runAt: clock.now() + delayMs, reason, failure };
}
