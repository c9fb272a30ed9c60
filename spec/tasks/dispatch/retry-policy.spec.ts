import { expect } from 'chai';
import fc from 'fast-check';
import type { Failure } from '../../../db/task-store.ts';
import { decide, decideRetry, retryPolicies, retryPolicy } from '../../../main/tasks/dispatch/retry-policy.ts';

const policies = fc.record({
  maxAttempts: fc.integer({ min: 1, max: 50 }),
  maxCrashes: fc.integer({ min: 1, max: 50 }),
  baseDelayMs: fc.integer({ min: 0, max: 10_000 }),
  maxDelayMs: fc.integer({ min: 0, max: 100_000 }),
});
const shares = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

/** Time and chance. Time stands still at 0, so that a retry is due after its delay. */
const at = (share: number) => ({ clock: { now: () => 0 }, random: { number: () => share } });

/** Returns the longest delay after an attempt. */
function longestDelay(attempt: number, policy?: typeof retryPolicy): number {
  const settlement = decideRetry({ attempt, crashes: 0 }, 'transient', 'no', at(1), policy);
  return settlement.kind === 'retry' ? settlement.runAt : Number.NaN;
}

const kindOf = (attempt: number, crashes: number, failure: Failure) =>
  decideRetry({ attempt, crashes }, failure, 'no', at(0.5)).kind;

describe('the retry policy', () => {
  it('completes a task that returned, and releases one that was not processed', () => {
    const delivery = { attempt: 5, crashes: 1 };
    const completed = decide(delivery, { ended: 'returned', output: '"A"' }, at(0.5));
    expect(completed).to.deep.equal({ kind: 'complete', result: '{"output":"A"}' });
    expect(decide(delivery, { ended: 'released', reason: 'stopped' }, at(0.5))).to.deep.equal({ kind: 'release' });
    expect(decide(delivery, { ended: 'cancelled' }, at(0.5))).to.deep.equal({ kind: 'cancel' });
  });

  it('allows a task five attempts, and discards one whose second thread died', () => {
    expect(retryPolicy).to.include({ maxAttempts: 5, maxCrashes: 2 });
    const kinds = [1, 2, 3, 4, 5].map((attempt) => kindOf(attempt, 0, 'transient'));
    expect(kinds).to.deep.equal(['retry', 'retry', 'retry', 'retry', 'discard']);
    const crashes = [kindOf(1, 0, 'crash'), kindOf(2, 1, 'crash'), kindOf(4, 0, 'crash'), kindOf(5, 0, 'crash')];
    expect(crashes).to.deep.equal(['retry', 'discard', 'retry', 'discard']);
    expect(kindOf(1, 1, 'transient')).to.equal('retry');
  });

  it('discards a permanent failure at once', () => {
    const outcome = { ended: 'raised', reason: 'bad data', permanent: true } as const;
    const settlement = { kind: 'discard', reason: 'bad data', failure: 'permanent' };
    expect(decide({ attempt: 1, crashes: 0 }, outcome, at(0.5))).to.deep.equal(settlement);
  });

  it('retries after the delay that the handler asks for, if an attempt is left', () => {
    const outcome = { ended: 'raised', reason: 'busy', permanent: false, retryAfterMs: 86_400_000 } as const;
    const settlement = { kind: 'retry', runAt: 86_400_000, reason: 'busy', failure: 'transient' };
    expect(decide({ attempt: 4, crashes: 0 }, outcome, at(0.5))).to.deep.equal(settlement);
    expect(decide({ attempt: 5, crashes: 0 }, outcome, at(0.5))).to.include({ kind: 'discard', failure: 'transient' });
  });

  it('has as many attempts as the action of a task message says', () => {
    const actions = new Map([
      ['once', { maxAttempts: 1 }],
      ['usual', {}],
    ]);
    const policyOf = (action: string) => retryPolicies(actions)({ action, body: JSON.stringify({ action }) });
    expect(policyOf('once')).to.deep.equal({ ...retryPolicy, maxAttempts: 1 });
    expect([
      policyOf('usual'),
      policyOf('other'),
      retryPolicies(actions)({ action: undefined, body: '{}' }),
    ]).to.deep.equal(Array(3).fill(retryPolicy));
    const crashed = { ended: 'crashed', reason: 'no' } as const;
    expect(decide({ attempt: 1, crashes: 0 }, crashed, at(0.5), policyOf('once')).kind).to.equal('discard');
  });

  it('draws the delay evenly from zero to a bound, which doubles with each attempt up to a minute', () => {
    expect([1, 2, 3, 4].map((attempt) => longestDelay(attempt))).to.deep.equal([1000, 2000, 4000, 8000]);
    for (const attempt of [30, 2000]) {
      expect(longestDelay(attempt, { ...retryPolicy, maxAttempts: 3000 })).to.equal(60_000);
    }
    for (const share of [0, 0.25, 0.5, 0.999]) {
      const settlement = decideRetry({ attempt: 3, crashes: 0 }, 'transient', 'no', at(share));
      expect(settlement).to.include({ kind: 'retry', runAt: 4000 * share });
    }
  });

  it('passes reason and failure on and never delays longer than it may, whatever the policy', () => {
    const failures = fc.constantFrom<Failure>('transient', 'crash', 'permanent');
    fc.assert(
      fc.property(policies, failures, shares, fc.integer({ min: 1, max: 60 }), (policy, failure, share, attempt) => {
        const settlement = decideRetry({ attempt, crashes: 0 }, failure, 'the reason', at(share), policy);
        expect(settlement).to.include({ reason: 'the reason', failure });
        if (settlement.kind === 'discard') return;
        expect(attempt).to.be.below(policy.maxAttempts);
        expect(failure).to.not.equal('permanent');
        expect(settlement.runAt).to.satisfy(Number.isSafeInteger);
        expect(settlement.runAt).to.be.within(0, policy.maxDelayMs);
      }),
    );
  });

  it('comes to an end with every task, however its attempts fail', () => {
    fc.assert(
      fc.property(policies, fc.infiniteStream(fc.constantFrom<Failure>('transient', 'crash')), (policy, failures) => {
        let [attempt, crashes] = [1, 0];
        for (const failure of failures) {
          if (decideRetry({ attempt, crashes }, failure, 'no', at(0.5), policy).kind === 'discard') break;
          if (failure === 'crash') crashes += 1;
          attempt += 1;
          expect(attempt).to.be.at.most(policy.maxAttempts);
          expect(crashes).to.be.below(policy.maxCrashes);
        }
        expect(attempt).to.be.at.most(policy.maxAttempts);
      }),
    );
  });
});
