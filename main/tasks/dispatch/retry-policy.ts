import type { Delivery, Settlement } from '../../../db/task-store.ts';
import type { Clock, Random } from '../../../workers/shared/clock.ts';
import { actionOf } from '../../../workers/submissions/parse-submission.ts';
import type { Backoff } from '../../../workers/tasks/handlers-api.ts';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import { CALLBACK_ATTEMPTS } from '../callbacks/callback-sender.ts';
import type { Outcome } from '../pool/run.ts';

export const retryPolicy = {
  maxAttempts: 5,
  /** Number of crashes (deaths of the thread during an attempt) after which a task is discarded. */
  maxCrashes: 2,
  /** The five attempts are spread over two minutes on average, four at most. */
  backoff: { firstMs: 6000, factor: 3, maxMs: 3_600_000 },
} as const;

export interface Retries {
  maxAttempts: number;
  backoff: Backoff;
}

export function retriesOf(task: Pick<Delivery, 'action' | 'body' | 'callbackOf'>, actions: HandlersManifest): Retries {
  if (task.callbackOf !== undefined) return { ...retryPolicy, maxAttempts: CALLBACK_ATTEMPTS };
  const settings = actions.get(actionOf(task) ?? '');
  if (settings?.backoff === undefined && settings?.maxAttempts === undefined) return retryPolicy;
  const { maxAttempts = retryPolicy.maxAttempts, backoff } = settings;
  return { maxAttempts, backoff: { ...retryPolicy.backoff, ...backoff } };
}

/** Returns how to settle a delivery, depending on the outcome of its run. */
export function decide(
  delivery: Pick<Delivery, 'attempt' | 'crashes'>,
  outcome: Outcome,
  { maxAttempts, backoff: { firstMs, factor, maxMs } }: Retries,
  { clock, random }: { clock: Pick<Clock, 'now'>; random: Pick<Random, 'number'> },
): Settlement {
  if (outcome.ended === 'returned') return { kind: 'complete', result: `{"output":${outcome.output}}` };
  if (outcome.ended === 'cancelled') return { kind: 'cancel' };
  if (outcome.ended === 'released') return { kind: 'release' };
  const { attempt, crashes } = delivery;
  const { reason } = outcome;
  const stack = outcome.ended === 'raised' && outcome.stack !== undefined ? { stack: outcome.stack } : {};
  const failure = outcome.ended === 'crashed' ? 'crash' : outcome.permanent ? 'permanent' : 'transient';
  const hasCrashedTooOften = failure === 'crash' && crashes + 1 >= retryPolicy.maxCrashes;
  if (failure === 'permanent' || attempt >= maxAttempts || hasCrashedTooOften)
    return { kind: 'discard', reason, ...stack, failure };
  const bound = Math.min(maxMs, firstMs * factor ** (attempt - 1));
  const askedMs = outcome.ended === 'raised' ? outcome.retryAfterMs : undefined;
  const runAt = clock.now() + (askedMs ?? Math.floor(random.number() * bound));
  return { kind: 'retry', runAt, reason, ...stack, failure };
}
