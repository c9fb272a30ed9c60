import { expect } from 'chai';
import { alarm } from '../../../workers/shared/clock.ts';
import { ManualClock } from '../../support/manual-clock.ts';

describe('an alarm', () => {
  it('runs at the earliest of its times, at no time that is no number, and not after it is stopped', () => {
    const clock = new ManualClock();
    const runs: number[] = [];
    const start = clock.now();
    const { set, stop } = alarm(clock, () => runs.push(clock.now() - start));
    for (const delay of [30, 10, 20, Number.NaN, Number.POSITIVE_INFINITY]) set(start + delay);
    clock.advance(100);
    expect(runs).to.deep.equal([10]);
    set(start + 150);
    stop();
    set(start + 120);
    clock.advance(100);
    expect(runs).to.deep.equal([10]);
  });
});
