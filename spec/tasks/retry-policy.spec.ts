import { expect } from 'chai';
import fc from 'fast-check';
import { type Failure, judge, type RetryPolicy, retryPolicy } from '../../main/tasks/retry-policy.ts';

const transient: Failure = { failure: 'transient', reason: 'no connection' };
const permanent: Failure = { failure: 'permanent', reason: 'bad data' };
const crash: Failure = { failure: 'crash', reason: 'thread died' };

const policies = fc.record({
  maxAttempts: fc.integer({ min: 1, max: 50 }),
  maxCrashes: fc.integer({ min: 1, max: 50 }),
  baseDelayMs: fc.integer({ min: 0, max: 10_000 }),
  maxDelayMs: fc.integer({ min: 0, max: 100_000 }),
});
const shares = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

/** Longest wait after an attempt, as a policy draws it at the upper end of chance. */
function longestWait(attempt: number, policy?: RetryPolicy): number {
  const verdict = judge({ attempt, crashes: 0 }, transient, policy, () => 1);
  return verdict.verdict === 'retry' ? verdict.delayMs : Number.NaN;
}

describe('the retry policy', () => {
  it('tries a task five times, and gives one up whose second thread died', () => {
    expect(retryPolicy).to.include({ maxAttempts: 5, maxCrashes: 2 });
    const verdicts = [1, 2, 3, 4, 5].map((attempt) => judge({ attempt, crashes: 0 }, transient).verdict);
    expect(verdicts).to.deep.equal(['retry', 'retry', 'retry', 'retry', 'dead']);
    expect(judge({ attempt: 1, crashes: 0 }, crash).verdict).to.equal('retry');
    expect(judge({ attempt: 2, crashes: 1 }, crash).verdict).to.equal('dead');
    expect(judge({ attempt: 4, crashes: 0 }, crash).verdict).to.equal('retry');
    expect(judge({ attempt: 5, crashes: 0 }, crash).verdict).to.equal('dead');
  });

  it('gives up a permanent failure at once', () => {
    expect(judge({ attempt: 1, crashes: 0 }, permanent)).to.deep.equal({ verdict: 'dead', reason: 'bad data' });
  });

  it('doubles the longest wait with each attempt, up to a bound', () => {
    expect([1, 2, 3, 4].map((attempt) => longestWait(attempt))).to.deep.equal([1000, 2000, 4000, 8000]);
    expect(longestWait(30, { ...retryPolicy, maxAttempts: 100 })).to.equal(60_000);
    expect(longestWait(2000, { ...retryPolicy, maxAttempts: 3000 })).to.equal(60_000);
  });

  it('draws the wait evenly from nothing to the bound', () => {
    for (const share of [0, 0.25, 0.5, 0.999]) {
      const verdict = judge({ attempt: 3, crashes: 0 }, transient, retryPolicy, () => share);
      expect(verdict).to.include({ verdict: 'retry', delayMs: 4000 * share });
    }
  });

  it('counts the death of a thread against a task that did not crash before only once', () => {
    expect(judge({ attempt: 1, crashes: 0 }, crash)).to.include({ crashed: true });
    expect(judge({ attempt: 1, crashes: 1 }, transient)).to.include({ verdict: 'retry', crashed: false });
  });

  it('passes the reason on and never waits longer than it may, whatever the policy', () => {
    const failures = fc.constantFrom(transient, crash, permanent);
    fc.assert(
      fc.property(policies, failures, shares, fc.integer({ min: 1, max: 60 }), (policy, failure, share, attempt) => {
        const verdict = judge({ attempt, crashes: 0 }, failure, policy, () => share);
        expect(verdict.reason).to.equal(failure.reason);
        if (verdict.verdict === 'dead') return;
        expect(attempt).to.be.below(policy.maxAttempts);
        expect(failure).to.not.equal(permanent);
        expect(verdict.delayMs).to.satisfy(Number.isSafeInteger);
        expect(verdict.delayMs).to.be.within(0, policy.maxDelayMs);
      }),
    );
  });

  it('comes to an end with every task, however its attempts fail', () => {
    fc.assert(
      fc.property(policies, fc.infiniteStream(fc.constantFrom(transient, crash)), (policy, failures) => {
        let [attempt, crashes] = [1, 0];
        for (const failure of failures) {
          const verdict = judge({ attempt, crashes }, failure, policy);
          if (verdict.verdict === 'dead') break;
          if (verdict.crashed) crashes += 1;
          attempt += 1;
          expect(attempt).to.be.at.most(policy.maxAttempts);
          expect(crashes).to.be.below(policy.maxCrashes);
        }
        expect(attempt).to.be.at.most(policy.maxAttempts);
      }),
    );
  });
});
