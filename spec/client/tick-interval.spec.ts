import { expect } from 'chai';
import { TickInterval } from '../../www/client/tick-interval.ts';

/** Returns an interval that has measured ticks at these times. The first time is that of the snapshot. */
function measured(...times: number[]): TickInterval {
  const interval = new TickInterval();
  for (const time of times) interval.note(time);
  return interval;
}

describe('the tick interval of the page', () => {
  it('is one second, or the interval that the service states, until three intervals are measured', () => {
    const interval = measured(0, 4_000, 9_000, 14_000);
    expect(interval.milliseconds).to.equal(1_000);
    interval.statedMs = 60_000;
    expect(interval.milliseconds).to.equal(60_000);
    interval.note(19_000);
    expect(interval.milliseconds).to.equal(5_000);
  });

  it('does not count the time from the snapshot to the first tick', () => {
    expect(measured(4_990, 5_000, 10_000, 15_000, 20_000).milliseconds).to.equal(5_000);
  });

  it('ignores single late ticks, but follows the stream', () => {
    const interval = measured(0, 1_000, 2_000, 6_000, 6_010, 7_000, 8_000);
    expect(interval.milliseconds).to.equal(1_000);
    for (let time = 13_000; time < 60_000; time += 5_000) interval.note(time);
    expect(interval.milliseconds).to.equal(5_000);
    interval.restart();
    expect(interval.milliseconds).to.equal(1_000);
  });
});
