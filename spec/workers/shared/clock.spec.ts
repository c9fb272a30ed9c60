import { mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import { alarm, continueFrom, nextTick, startSchedule, systemClock } from '../../../workers/shared/clock.ts';
import { ManualClock } from '../../support/manual-clock.ts';

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
    continueFrom(0);
    time.monotonic += 10;
    expect(systemClock.now() - before).to.be.within(9, 11);
    time.setMs = 60_000;
    expect(systemClock.now() - before).to.be.within(60_009, 60_011);
  });

  it('lets a timer with a delay that is too long for Node wait for as long as possible', () => {
    const { mock: timers } = mock.method(globalThis, 'setTimeout');
    systemClock.timer(2 ** 31, () => {})();
    expect(timers.calls[0]?.arguments[1]).to.equal(2 ** 31 - 1);
  });
});

describe('an alarm', () => {
  it('runs at the earliest of its times, at no time that is no number, and not after it is stopped', () => {
    const clock = new ManualClock(0);
    const runs: number[] = [];
    const { set, stop } = alarm(clock, () => runs.push(clock.now()));
    for (const time of [30, 10, 20, Number.NaN, Number.POSITIVE_INFINITY]) set(time);
    clock.advance(100);
    set(150);
    stop();
    set(120);
    clock.advance(100);
    expect(runs).to.deep.equal([10]);
  });
});

describe('a schedule', () => {
  const START = 1_700_000_000_000;

  /** Starts a schedule with an interval of a second, whose ticks end with `ended`. */
  function start(startedAt = START, ended = Promise.resolve()) {
    const clock = new ManualClock(startedAt);
    const ticks: number[] = [];
    startSchedule(clock, 1000, async () => {
      ticks.push(clock.now() - START);
      await ended;
    });
    const pass = async (ms: number) => {
      for (let left = ms; left > 0; left -= 250) {
        clock.advance(Math.min(left, 250));
        await nextTurn();
      }
    };
    return { ticks, pass, jump: (ms: number) => clock.jump(ms) };
  }

  it('ticks at each whole multiple of its interval, so that no tick drifts, and not before, even if a timer is early', async () => {
    expect([0, 499, 500, 501].map((now) => nextTick(START + now, 500) - START)).to.deep.equal([500, 500, 1000, 1000]);
    const { ticks, pass, jump } = start(START + 250);
    jump(-1);
    await pass(750);
    expect(ticks).to.deep.equal([]);
    await pass(4001);
    expect(ticks).to.deep.equal([1000, 2000, 3000, 4000, 5000]);
  });

  it('ticks once after a suspension of the machine, and not again in the interval in which a late tick ends', async () => {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const [suspended, late] = [start(), start(START, ended)];
    await suspended.pass(1000);
    suspended.jump(10_000);
    await suspended.pass(2000);
    expect(suspended.ticks).to.deep.equal([1000, 12_000, 13_000]);
    await late.pass(2200);
    resolve();
    await late.pass(900);
    expect(late.ticks).to.deep.equal([1000, 3000]);
  });
});
