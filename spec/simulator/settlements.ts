import type { Settled } from '../../db/task-store.ts';
import type { Outcome } from '../../main/tasks/pool/run.ts';

/** Record of one attempt. */
export interface RunRecord {
  /** How the handler settled its task before it ended. */
  early: 'ack' | 'nack' | undefined;
  outcome: Outcome | undefined;
}

/** Returns how a settlement contradicts the run of the handler. The spec of the retry policy covers its decisions. */
export function settlementProblem({ settlement }: Settled, record: RunRecord | undefined): string | undefined {
  const { early, outcome } = record ?? {};
  const { kind } = settlement;
  const happened = early ?? outcome?.ended;
  switch (kind) {
    case 'ack':
      return early === 'ack' ? undefined : `'ack' after ${happened}`;
    case 'complete':
    case 'row': {
      if ((early === 'ack') !== (kind === 'row')) return `'${kind}' after ${happened}`;
      const output = outcome?.ended === 'returned' ? `{"output":${outcome.output}}` : undefined;
      return settlement.result === output ? undefined : `completed with ${settlement.result} instead of ${output}`;
    }
    case 'release':
      // A delivery that was taken while a pause was stored has no run.
      return record === undefined || outcome?.ended === 'released' ? undefined : `released after ${happened}`;
    case 'cancel':
      return outcome?.ended === 'cancelled' ? undefined : `cancelled after ${happened}`;
    default: {
      const hasFailed = early === 'nack' || outcome?.ended === 'raised' || outcome?.ended === 'crashed';
      return hasFailed ? undefined : `'${kind}' after ${happened}`;
    }
  }
}
