import { expect } from 'chai';
import { decide, retriesOf, retryPolicy } from '../../../main/tasks/dispatch/retry-policy.ts';
import type { Outcome } from '../../../main/tasks/pool/run.ts';
import type { ActionSettings } from '../../../workers/tasks/messages.ts';

const raised: Outcome = { ended: 'raised', reason: 'no', permanent: false };
const crashed: Outcome = { ended: 'crashed', reason: 'no' };

/** Decides at time 0, so that a retry is due after its delay. @param share random number */
const settle = (attempt: number, crashes: number, outcome: Outcome, share = 0.5, retries = retriesOfAction()) =>
  decide({ attempt, crashes }, outcome, retries, { clock: { now: () => 0 }, random: { number: () => share } });

const retriesOfAction = (settings: ActionSettings = {}) =>
  retriesOf({ action: 'a', body: '' }, new Map([['a', settings]]));

describe('the retry policy', () => {
  it('allows a task five attempts, a callback nine, and discards a task whose second thread died', () => {
    expect(retryPolicy).to.include({ maxAttempts: 5, maxCrashes: 2 });
    expect([1, 4, 5].map((attempt) => settle(attempt, 0, raised).kind)).to.deep.equal(['retry', 'retry', 'discard']);
    const crashes = [settle(1, 0, crashed), settle(2, 1, crashed), settle(4, 0, crashed), settle(5, 0, crashed)];
    expect(crashes.map(({ kind }) => kind)).to.deep.equal(['retry', 'discard', 'retry', 'discard']);
    for (const each of crashes) expect(each).to.include({ reason: 'no', failure: 'crash' });
    expect(crashes[0]).to.include({ runAt: 3000 });
    expect(settle(1, 1, raised).kind).to.equal('retry');
    expect(retriesOf({ action: 'callback', body: '', callbackOf: 'a' }, new Map())).to.include({ maxAttempts: 9 });
  });

  it('retries after the delay that the handler asks for, if an attempt is left', () => {
    const outcome = { ...raised, reason: 'busy', retryAfterMs: 86_400_000 } as const;
    const settlement = { kind: 'retry', runAt: 86_400_000, reason: 'busy', failure: 'transient' };
    expect(settle(4, 0, outcome)).to.deep.equal(settlement);
    expect(settle(5, 0, outcome)).to.include({ kind: 'discard', reason: 'busy', failure: 'transient' });
  });

  it('draws the delay evenly from zero to a bound, which triples with each attempt up to an hour', () => {
    const retries = retriesOfAction({ maxAttempts: 3000 });
    for (const [attempt, seconds] of Object.entries({ 1: 6, 2: 18, 3: 54, 4: 162, 30: 3600, 2000: 3600 }))
      for (const share of [0, 0.25, 0.5, 0.999, 1 / 7])
        expect(settle(Number(attempt), 0, raised, share, retries)).to.include({
          runAt: Math.floor(seconds * 1000 * share),
        });
  });

  it('has the attempts and delays that the action of a task says', () => {
    expect(settle(1, 0, crashed, 0.5, retriesOfAction({ maxAttempts: 1 })).kind).to.equal('discard');
    const backoff = { firstMs: 100, factor: 1, maxMs: 50 };
    const retries = retriesOfAction({ backoff });
    expect(retries).to.deep.equal({ maxAttempts: 5, backoff });
    expect(settle(3, 0, raised, 0.5, retries)).to.include({ runAt: 25 });
    const { backoff: partly } = retriesOfAction({ backoff: { factor: 2 } });
    expect(partly).to.deep.equal({ firstMs: 6000, factor: 2, maxMs: 3_600_000 });
    for (const action of ['b', undefined]) expect(retriesOf({ action, body: '' }, new Map())).to.equal(retryPolicy);
  });
});
