import { expect } from 'chai';
import { Histogram, quantile, TASK_DURATION_BOUNDS } from '../../../workers/shared/histogram.ts';

describe('a histogram', () => {
  it('estimates quantiles within a bucket, and none above the last bound', () => {
    const histogram = new Histogram([1, 2, 4]);
    for (const seconds of [0.1, 0.2, 3, 3, 3, 3, 3, 3, 9, 9]) histogram.observe(seconds);
    const estimate = (fraction: number) => quantile([1, 2, 4], histogram.cumulative(), fraction);
    expect([0.1, 0.2, 0.5, 0.8, 0.81, 1].map(estimate)).to.deep.equal([0.5, 1, 3, 4, 4, 4]);
    const ofTasks = new Histogram(TASK_DURATION_BOUNDS);
    ofTasks.observe(80_000);
    expect(quantile(TASK_DURATION_BOUNDS, ofTasks.cumulative(), 1), 'of nearly a day').to.be.above(80_000);
  });
});
