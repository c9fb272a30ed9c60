import { expect } from 'chai';
import fc from 'fast-check';
import {
  decide,
  decideRetry,
  discardExhausted,
  retryPolicies,
  retryPolicy,
} from '../../../main/tasks/dispatch/retry-policy.ts';
import type { Failure } from '../../../main/tasks/queue/queue.ts';

const policies = fc.record({
  maxAttempts: fc.integer({ min: 1, max: 50 }),
  maxCrashes: fc.integer({ min: 1, max: 50 }),
  baseDelayMs: fc.integer({ min: 0, max: 10_000 }),
  maxDelayMs: fc.integer({ min: 0, max: 100_000 }),
});
const shares = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

/** Returns the longest delay after an attempt. */
function longestDelay(attempt: number, policy?: typeof retryPolicy): number {
  const settlement = decideRetry({ attempt, crashes: 0 }, 'transient', 'no', policy, () => 1);
  return settlement.kind === 'retry' ? settlement.delayMs : Number.NaN;
}

const kindOf = (attempt: number, crashes: number, failure: Failure) =>
  decideRetry({ attempt, crashes }, failure, 'no').kind;

describe('the retry policy', () => {
  it('acknowledges what returned, and releases what was not processed', () => {
    const delivery = { attempt: 5, crashes: 1 };
    expect(decide(delivery, { ended: 'returned' })).to.deep.equal({ kind: 'ack' });
    expect(decide(delivery, { ended: 'unstored', reason: 'disk full' })).to.deep.equal({ kind: 'release' });
    expect(decide(delivery, { ended: 'interrupted', reason: 'stopped' })).to.deep.equal({ kind: 'release' });
  });

  it('tries a task five times, and discards one whose second thread died', () => {
    expect(retryPolicy).to.include({ maxAttempts: 5, maxCrashes: 2 });
    const kinds = [1, 2, 3, 4, 5].map((attempt) => kindOf(attempt, 0, 'transient'));
    expect(kinds).to.deep.equal(['retry', 'retry', 'retry', 'retry', 'discard']);
    expect(kindOf(1, 0, 'crash')).to.equal('retry');
    expect(kindOf(2, 1, 'crash')).to.equal('discard');
    expect(kindOf(4, 0, 'crash')).to.equal('retry');
    expect(kindOf(5, 0, 'crash')).to.equal('discard');
    expect(kindOf(1, 1, 'transient')).to.equal('retry');
  });

  it('discards a permanent failure at once', () => {
    expect(decide({ attempt: 1, crashes: 0 }, { ended: 'raised', reason: 'bad data', permanent: true })).to.deep.equal({
      kind: 'discard',
      attempts: 1,
      reason: 'bad data',
      failure: 'permanent',
    });
  });

  it('retries after the delay that the handler asks for, if an attempt is left', () => {
    const outcome = { ended: 'raised', reason: 'busy', permanent: false, retryAfterMs: 86_400_000 } as const;
    expect(decide({ attempt: 4, crashes: 0 }, outcome)).to.deep.equal({
      kind: 'retry',
      delayMs: 86_400_000,
      reason: 'busy',
      failure: 'transient',
    });
    expect(decide({ attempt: 5, crashes: 0 }, outcome)).to.include({ kind: 'discard', attempts: 5 });
  });

  it('has as many attempts as the action of a task message says', () => {
    const actions = new Map([
      ['once', { maxAttempts: 1 }],
      ['usual', {}],
    ]);
    const policyOf = (action: string) => retryPolicies(actions)(JSON.stringify({ id: 'a', action, data: {} }));
    expect(policyOf('once')).to.deep.equal({ ...retryPolicy, maxAttempts: 1 });
    expect([policyOf('usual'), policyOf('other'), retryPolicies(actions)('no message')]).to.deep.equal(
      Array(3).fill(retryPolicy),
    );
    expect(decide({ attempt: 1, crashes: 0 }, { ended: 'crashed', reason: 'no' }, policyOf('once')).kind).to.equal(
      'discard',
    );
    expect(discardExhausted({ attempt: 2, crashes: 0 }, policyOf('once'))).to.include({ attempts: 1 });
  });

  it('discards what has no attempts left before it runs, with the attempts that it had', () => {
    expect(discardExhausted({ attempt: 5, crashes: 1 })).to.equal(undefined);
    expect(discardExhausted({ attempt: 6, crashes: 1 })).to.include({ kind: 'discard', attempts: 5 });
    expect(discardExhausted({ attempt: 3, crashes: 2 })).to.include({ kind: 'discard', attempts: 2 });
  });

  it('doubles the longest delay with each attempt, up to a bound', () => {
    expect([1, 2, 3, 4].map((attempt) => longestDelay(attempt))).to.deep.equal([1000, 2000, 4000, 8000]);
    expect(longestDelay(30, { ...retryPolicy, maxAttempts: 100 })).to.equal(60_000);
    expect(longestDelay(2000, { ...retryPolicy, maxAttempts: 3000 })).to.equal(60_000);
  });

  it('draws the delay evenly from zero to the bound', () => {
    for (const share of [0, 0.25, 0.5, 0.999]) {
      const settlement = decideRetry({ attempt: 3, crashes: 0 }, 'transient', 'no', retryPolicy, () => share);
      expect(settlement).to.include({ kind: 'retry', delayMs: 4000 * share });
    }
  });

  it('passes reason and failure on and never delays longer than it may, whatever the policy', () => {
    const failures = fc.constantFrom<Failure>('transient', 'crash', 'permanent');
    fc.assert(
      fc.property(policies, failures, shares, fc.integer({ min: 1, max: 60 }), (policy, failure, share, attempt) => {
        const settlement = decideRetry({ attempt, crashes: 0 }, failure, 'the reason', policy, () => share);
        expect(settlement).to.include({ failure, reason: 'the reason' });
        if (settlement.kind === 'discard') return;
        expect(attempt).to.be.below(policy.maxAttempts);
        expect(failure).to.not.equal('permanent');
        expect(settlement.delayMs).to.satisfy(Number.isSafeInteger);
        expect(settlement.delayMs).to.be.within(0, policy.maxDelayMs);
      }),
    );
  });

  it('comes to an end with every task, however its attempts fail', () => {
    fc.assert(
      fc.property(policies, fc.infiniteStream(fc.constantFrom<Failure>('transient', 'crash')), (policy, failures) => {
        let [attempt, crashes] = [1, 0];
        for (const failure of failures) {
          if (decideRetry({ attempt, crashes }, failure, 'no', policy).kind === 'discard') break;
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
