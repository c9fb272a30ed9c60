import { expect } from 'chai';
import fc from 'fast-check';
import { DURATION_BOUNDS, Histogram, quantile } from '../../../workers/shared/histogram.ts';

const duration = fc.double({ min: 0, max: 20, noNaN: true });

describe('a distribution', () => {
  it('counts what is up to each bound, the bound itself included', () => {
    const distribution = new Histogram([1, 2]);
    for (const seconds of [0, 1, 1.5, 2, 3]) distribution.observe(seconds);
    expect(distribution.cumulative()).to.deep.equal({ upTo: [2, 4], count: 5, sum: 7.5 });
  });

  it('agrees with a plain count, whatever is observed', () => {
    fc.assert(
      fc.property(fc.array(duration), (durations) => {
        const distribution = new Histogram(DURATION_BOUNDS);
        for (const seconds of durations) distribution.observe(seconds);
        const { upTo, count, sum } = distribution.cumulative();
        expect(upTo).to.deep.equal(DURATION_BOUNDS.map((bound) => durations.filter((each) => each <= bound).length));
        expect(count).to.equal(durations.length);
        expect(sum).to.equal(durations.reduce((total, each) => total + each, 0));
      }),
    );
  });

  it('estimates quantiles within a bucket, and none above the last bound', () => {
    const distribution = new Histogram([1, 2, 4]);
    for (const seconds of [0.1, 0.2, 3, 3, 3, 3, 3, 3, 9, 9]) distribution.observe(seconds);
    const estimate = (fraction: number) => quantile([1, 2, 4], distribution.cumulative(), fraction);
    expect([0.1, 0.2, 0.5, 0.8, 0.81, 1].map(estimate)).to.deep.equal([0.5, 1, 3, 4, 4, 4]);
  });

  it('reads what a thread observes in shared memory', () => {
    fc.assert(
      fc.property(fc.array(duration), (durations) => {
        const memory = new SharedArrayBuffer(Histogram.bytes(DURATION_BOUNDS));
        const expected = new Histogram(DURATION_BOUNDS);
        for (const seconds of durations) {
          new Histogram(DURATION_BOUNDS, memory).observe(seconds);
          expected.observe(seconds);
        }
        expect(new Histogram(DURATION_BOUNDS, memory).cumulative()).to.deep.equal(expected.cumulative());
      }),
    );
  });
});
