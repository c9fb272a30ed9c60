import { expect } from 'chai';
import fc from 'fast-check';
import { RecentDurations } from '../../main/tasks/queue-monitor.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../workers/shared/histogram.ts';

function start() {
  const histogram = new Histogram(TASK_DURATION_BOUNDS);
  const recent = new RecentDurations(histogram);
  const pass = (seconds: number) => {
    for (let second = 0; second < seconds; second++) recent.tick();
  };
  return { histogram, recent, pass };
}

describe('the percentiles of recent durations', () => {
  it('are absent if there were none', () => {
    const { recent, pass } = start();
    pass(1000);
    expect(recent.percentiles()).to.equal(undefined);
  });

  it('are estimated within a bucket', () => {
    const { histogram, recent } = start();
    for (let i = 0; i < 50; i++) histogram.observe(0.75);
    for (let i = 0; i < 50; i++) histogram.observe(7);
    expect(recent.percentiles()).to.deep.equal({ p50: 1, p95: 9.5, p99: 9.9 });
  });

  it('omit durations that are more than five minutes old', () => {
    const { histogram, recent, pass } = start();
    pass(10);
    histogram.observe(20);
    pass(269);
    expect(recent.percentiles()?.p50).to.be.within(10, 30);
    histogram.observe(0.3);
    pass(31);
    expect(recent.percentiles()?.p99).to.be.within(0.25, 0.5);
    pass(300);
    expect(recent.percentiles()).to.equal(undefined);
  });

  it('are in the bucket of the exact percentile', () => {
    const durations = fc.array(fc.double({ min: 0, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(durations, (all) => {
        const { histogram, recent } = start();
        for (const each of all) histogram.observe(each);
        const sorted = all.toSorted((one, other) => one - other);
        const found = recent.percentiles();
        for (const [name, fraction] of [
          ['p50', 0.5],
          ['p95', 0.95],
          ['p99', 0.99],
        ] as const) {
          const exact = sorted[Math.ceil(fraction * all.length) - 1] as number;
          const index = TASK_DURATION_BOUNDS.findIndex((bound) => exact <= bound);
          const lower = index === 0 ? 0 : (TASK_DURATION_BOUNDS.at(index === -1 ? -1 : index - 1) as number);
          // Rounding to three digits can move an estimate out of its bucket by 0.5 %.
          expect(found?.[name]).to.be.within(lower * 0.995, (TASK_DURATION_BOUNDS.at(index) as number) * 1.005);
        }
      }),
    );
  });
});
