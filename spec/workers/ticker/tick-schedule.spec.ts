import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { nextTick, startSchedule } from '../../../workers/shared/clock.ts';
import { ManualClock } from '../../support/manual-clock.ts';

const START = 1_700_000_000_000;

const interval = fc.integer({ min: 1, max: 60_000 });
const time = fc.integer({ min: 0, max: 2 ** 42 });

describe('the next tick', () => {
  it('is the next whole multiple of the interval, so that no tick drifts', () => {
    fc.assert(
      fc.property(time, interval, (now, intervalMs) => {
        const next = nextTick(now, intervalMs);
        expect(next % intervalMs).to.equal(0);
        expect(next).to.be.within(now + 1, now + intervalMs);
      }),
    );
  });
});

describe('the schedule', () => {
  /** Starts a schedule, whose ticks end with `ended`. */
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
        await setImmediate();
      }
    };
    return { ticks, pass, jump: (ms: number) => clock.jump(ms) };
  }

  it('ticks at every due time, and not before', async () => {
    const { ticks, pass } = start(START + 250);
    await pass(749);
    expect(ticks).to.deep.equal([]);
    await pass(4001);
    expect(ticks).to.deep.equal([1000, 2000, 3000, 4000, 5000]);
  });

  it('waits for the rest of the interval if a timer is early', async () => {
    const { ticks, pass, jump } = start();
    jump(-1);
    await pass(1000);
    expect(ticks).to.deep.equal([]);
    await pass(1);
    expect(ticks).to.deep.equal([1000]);
  });

  it('ticks once after a suspension of the machine', async () => {
    const { ticks, pass, jump } = start();
    await pass(1000);
    jump(10_000);
    await pass(2000);
    expect(ticks).to.deep.equal([1000, 12_000, 13_000]);
  });

  it('does not tick again in the interval in which a late tick ends', async () => {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const { ticks, pass } = start(START, ended);
    await pass(2200);
    resolve();
    await pass(900);
    expect(ticks).to.deep.equal([1000, 3000]);
  });
});
