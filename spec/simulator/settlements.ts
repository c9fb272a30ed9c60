import type { Delivery, Settled } from '../../db/task-store.ts';
import { NACKED } from '../../main/tasks/dispatch/dispatcher.ts';
import { retryPolicy } from '../../main/tasks/dispatch/retry-policy.ts';
import type { Outcome } from '../../main/tasks/pool/run.ts';

/** Record of one attempt. */
export interface RunRecord {
  /** How the handler settled its task before it ended. */
  early: 'ack' | 'nack' | undefined;
  outcome: Outcome | undefined;
}

/** Returns how a settlement differs from what follows from the run of the handler. */
export function settlementProblem(
  { delivery, settlement }: Settled,
  record: RunRecord | undefined,
  maxAttempts: number,
): string | undefined {
  const outcome = record?.early === 'nack' && settlement.kind !== 'row' ? NACKED : record?.outcome;
  switch (settlement.kind) {
    case 'ack':
      return record?.early === 'ack' ? undefined : 'acked without an ack of its handler';
    case 'complete':
    case 'row': {
      if ((record?.early === 'ack') !== (settlement.kind === 'row'))
        return `'${settlement.kind}' after ${record?.early}`;
      const output = outcome?.ended === 'returned' ? `{"output":${outcome.output}}` : undefined;
      return settlement.result === output ? undefined : `completed with ${settlement.result} instead of ${output}`;
    }
    case 'release':
      // A delivery that was taken while a pause was stored has no run.
      return record === undefined || outcome?.ended === 'released' ? undefined : `released after ${outcome?.ended}`;
    case 'cancel':
      return outcome?.ended === 'cancelled' ? undefined : `cancelled after ${outcome?.ended}`;
    default:
      return retryProblem(delivery, settlement, outcome, maxAttempts);
  }
}

function retryProblem(
  { attempt, crashes }: Delivery,
  settlement: Extract<Settled['settlement'], { kind: 'retry' | 'discard' }>,
  outcome: Outcome | undefined,
  maxAttempts: number,
): string | undefined {
  if (outcome?.ended !== 'raised' && outcome?.ended !== 'crashed') return `charged after ${outcome?.ended}`;
  const isCrash = outcome.ended === 'crashed';
  const isPermanent = outcome.ended === 'raised' && outcome.permanent;
  const isLast = attempt >= maxAttempts || isPermanent || (isCrash && crashes + 1 >= retryPolicy.maxCrashes);
  if (isLast !== (settlement.kind === 'discard')) return `'${settlement.kind}' after ${outcome.reason}`;
  if (settlement.reason !== outcome.reason) return `failed with ${settlement.reason} instead of ${outcome.reason}`;
  const failure = isCrash ? 'crash' : isPermanent ? 'permanent' : 'transient';
  return settlement.failure === failure ? undefined : `${settlement.failure} after ${failure}`;
}
