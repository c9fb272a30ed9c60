import { expect } from 'chai';
import fc from 'fast-check';
import { decide, type Retries, retriesOf, retryPolicy } from '../../../main/tasks/dispatch/retry-policy.ts';
import type { Outcome } from '../../../main/tasks/pool/run.ts';

/** The default retries, up to another number of attempts. */
const upTo = (maxAttempts: number): Retries => ({ ...retryPolicy, maxAttempts });
const limits = fc.integer({ min: 1, max: 50 });
const shares = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

/** Time and chance. Time stands still at 0, so that a retry is due after its delay. */
const at = (share: number) => ({ clock: { now: () => 0 }, random: { number: () => share } });

const raised: Outcome = { ended: 'raised', reason: 'no', permanent: false };
const crashed: Outcome = { ended: 'crashed', reason: 'no' };
const outcomes = fc.constantFrom(raised, crashed);

/** Returns the longest delay after an attempt. */
function longestDelay(attempt: number): number {
  const settlement = decide({ attempt, crashes: 0 }, raised, upTo(3000), at(1));
  return settlement.kind === 'retry' ? settlement.runAt : Number.NaN;
}

const kindOf = (attempt: number, crashes: number, outcome: Outcome) =>
  decide({ attempt, crashes }, outcome, retryPolicy, at(0.5)).kind;

describe('the retry policy', () => {
  it('allows a task five attempts, and discards one whose second thread died', () => {
    expect(retryPolicy).to.include({ maxAttempts: 5, maxCrashes: 2 });
    const kinds = [1, 2, 3, 4, 5].map((attempt) => kindOf(attempt, 0, raised));
    expect(kinds).to.deep.equal(['retry', 'retry', 'retry', 'retry', 'discard']);
    const crashes = [kindOf(1, 0, crashed), kindOf(2, 1, crashed), kindOf(4, 0, crashed), kindOf(5, 0, crashed)];
    expect(crashes).to.deep.equal(['retry', 'discard', 'retry', 'discard']);
    expect(kindOf(1, 1, raised)).to.equal('retry');
  });

  it('retries after the delay that the handler asks for, if an attempt is left', () => {
    const outcome = { ended: 'raised', reason: 'busy', permanent: false, retryAfterMs: 86_400_000 } as const;
    const settlement = { kind: 'retry', runAt: 86_400_000, reason: 'busy', failure: 'transient' };
    expect(decide({ attempt: 4, crashes: 0 }, outcome, retryPolicy, at(0.5))).to.deep.equal(settlement);
    const last = decide({ attempt: 5, crashes: 0 }, outcome, retryPolicy, at(0.5));
    expect(last).to.include({ kind: 'discard', failure: 'transient' });
  });

  it('has as many attempts as the action of a task message says', () => {
    const actions = new Map([
      ['once', { maxAttempts: 1 }],
      ['usual', {}],
    ]);
    const attemptsOf = (action?: string) =>
      retriesOf({ action, body: JSON.stringify({ action }) }, actions).maxAttempts;
    expect(['once', 'usual', 'other', undefined].map(attemptsOf)).to.deep.equal([1, 5, 5, 5]);
    expect(decide({ attempt: 1, crashes: 0 }, crashed, upTo(1), at(0.5)).kind).to.equal('discard');
  });

  it('draws the delay evenly from zero to a bound, which triples with each attempt up to an hour', () => {
    const seconds = [1, 2, 3, 4, 30, 2000].map((attempt) => longestDelay(attempt) / 1000);
    expect(seconds).to.deep.equal([6, 18, 54, 162, 3600, 3600]);
    for (const share of [0, 0.25, 0.5, 0.999]) {
      const settlement = decide({ attempt: 3, crashes: 0 }, raised, retryPolicy, at(share));
      expect(settlement).to.include({ kind: 'retry', runAt: 54_000 * share });
    }
  });

  it('delays as the action says', () => {
    const backoff = { firstMs: 100, factor: 1, maxMs: 50 };
    const retries = retriesOf({ action: 'a', body: '' }, new Map([['a', { backoff }]]));
    expect(retries).to.deep.equal({ maxAttempts: 5, backoff });
    expect(decide({ attempt: 3, crashes: 0 }, raised, retries, at(0.5))).to.include({ runAt: 25 });
    const { backoff: partly } = retriesOf({ action: 'a', body: '' }, new Map([['a', { backoff: { factor: 2 } }]]));
    expect(partly).to.deep.equal({ firstMs: 6000, factor: 2, maxMs: 3_600_000 });
  });

  it('passes the reason on and never delays longer than it may, whatever the limit of attempts', () => {
    fc.assert(
      fc.property(limits, outcomes, shares, fc.integer({ min: 1, max: 60 }), (limit, outcome, share, attempt) => {
        const settlement = decide({ attempt, crashes: 0 }, outcome, upTo(limit), at(share));
        expect(settlement).to.include({ reason: 'no', failure: outcome === crashed ? 'crash' : 'transient' });
        if (settlement.kind !== 'retry') return;
        expect(attempt).to.be.below(limit);
        expect(settlement.runAt).to.satisfy(Number.isSafeInteger);
        expect(settlement.runAt).to.be.within(0, retryPolicy.backoff.maxMs);
      }),
    );
  });
});
