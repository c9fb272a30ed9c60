import { expect } from 'chai';
import fc from 'fast-check';
import { DURATION_BOUNDS, Histogram, quantile } from '../../../workers/shared/histogram.ts';

const duration = fc.double({ min: 0, max: 20, noNaN: true });

describe('a histogram', () => {
  it('counts durations up to each bound, the bound itself included, also in memory that a thread shares', () => {
    const example = new Histogram([1, 2]);
    for (const seconds of [0, 1, 1.5, 2, 3]) example.observe(seconds);
    expect(example.cumulative()).to.deep.equal({ upTo: [2, 4], count: 5, sum: 7.5 });
    fc.assert(
      fc.property(fc.array(duration), (durations) => {
        const memory = new SharedArrayBuffer(Histogram.bytes(DURATION_BOUNDS));
        for (const seconds of durations) new Histogram(DURATION_BOUNDS, memory).observe(seconds);
        expect(new Histogram(DURATION_BOUNDS, memory).cumulative()).to.deep.equal({
          upTo: DURATION_BOUNDS.map((bound) => durations.filter((each) => each <= bound).length),
          count: durations.length,
          sum: durations.reduce((total, each) => total + each, 0),
        });
      }),
    );
  });

  it('estimates quantiles within a bucket, and none above the last bound', () => {
    const histogram = new Histogram([1, 2, 4]);
    for (const seconds of [0.1, 0.2, 3, 3, 3, 3, 3, 3, 9, 9]) histogram.observe(seconds);
    const estimate = (fraction: number) => quantile([1, 2, 4], histogram.cumulative(), fraction);
    expect([0.1, 0.2, 0.5, 0.8, 0.81, 1].map(estimate)).to.deep.equal([0.5, 1, 3, 4, 4, 4]);
  });
});
