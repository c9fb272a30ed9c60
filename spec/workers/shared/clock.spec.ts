import { mock } from 'node:test';
import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';

/** Lets the clocks of the system show other times: `readMs` pass with each look at one, and the wall clock is set by `setMs`. */
function controlTime() {
  const time = { monotonic: performance.now(), readMs: 0, setMs: 0 };
  // Not behind the system clock, which keeps the largest difference of both clocks that it has seen.
  const wall = systemClock.now() + 1 - time.monotonic;
  const read = () => {
    time.monotonic += time.readMs;
    return time.monotonic;
  };
  mock.method(performance, 'now', read);
  mock.method(Date, 'now', () => Math.floor(wall + read() + time.setMs));
  return time;
}

describe('the system clock', () => {
  it('does not run ahead of the wall clock if the thread stands still between its reads', () => {
    const time = controlTime();
    time.readMs = 500;
    systemClock.now();
    time.readMs = 0;
    expect(systemClock.now()).to.be.at.most(Date.now());
  });

  it('goes on if the wall clock is set back, and follows it if it is set forward', () => {
    const time = controlTime();
    const before = systemClock.now();
    time.setMs = -3_600_000;
    time.monotonic += 10;
    expect(systemClock.now() - before).to.be.within(9, 11);
    time.setMs = 60_000;
    expect(systemClock.now() - before).to.be.within(60_009, 60_011);
  });
});
