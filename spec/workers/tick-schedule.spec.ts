import { mock } from 'node:test';
import { expect } from 'chai';
import fc from 'fast-check';
import { nextTick, startSchedule } from '../../workers/tick-schedule.ts';
import { afterTest } from '../support/cleanup.ts';

const START = 1_700_000_000_000;

const interval = fc.integer({ min: 1, max: 60_000 });
const time = fc.integer({ min: 0, max: 2 ** 42 });

describe('the next tick', () => {
  const table: [title: string, due: number, now: number, next: number][] = [
    ['follows a tick on time', 5000, 5000, 6000],
    ['follows a tick that was late, on time', 5000, 5999, 6000],
    ['leaves out the one that was slept through', 5000, 6000, 7000],
    ['leaves out all that were slept through', 5000, 9500, 10_000],
    ['comes within the interval when the clock was set forward', 5000, 3_605_250, 3_606_000],
    ['comes within the interval when the clock was set back', 3_605_000, 5250, 6000],
    ['comes when it was due when it was looked for too early', 5000, 4999, 5000],
    ['is the first of a schedule', Number.NEGATIVE_INFINITY, 5250, 6000],
    ['is the first of a schedule that starts on the grid', Number.NEGATIVE_INFINITY, 5000, 6000],
  ];
  for (const [title, due, now, next] of table)
    it(title, () => {
      expect(nextTick(due, now, 1000)).to.equal(next);
    });

  it('lies in the future, and no further than one interval', () => {
    fc.assert(
      fc.property(time, time, interval, (due, now, intervalMs) => {
        const next = nextTick(due, now, intervalMs);
        expect(next).to.be.greaterThan(now);
        expect(next).to.be.at.most(now + intervalMs);
      }),
    );
  });

  it('lies on a whole multiple of the interval, whatever the clock does', () => {
    fc.assert(
      fc.property(fc.array(time, { minLength: 1 }), interval, (clock, intervalMs) => {
        let due = Number.NEGATIVE_INFINITY;
        for (const now of clock) {
          due = nextTick(due, now, intervalMs);
          expect(due % intervalMs).to.equal(0);
        }
      }),
    );
  });

  it('drifts by nothing, however late each tick comes', () => {
    fc.assert(
      fc.property(
        time,
        interval,
        fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
        (from, intervalMs, lateness) => {
          const first = nextTick(Number.NEGATIVE_INFINITY, from, intervalMs);
          let due = first;
          for (const late of lateness) due = nextTick(due, due + Math.floor(late * intervalMs), intervalMs);
          expect(due).to.equal(first + lateness.length * intervalMs);
        },
      ),
    );
  });
});

describe('the schedule', () => {
  /** Wall clock that a test can set. Timers use a separate clock. */
  let wall = START;

  beforeEach(() => {
    wall = START;
    mock.timers.enable({ apis: ['setTimeout'] });
    mock.method(Date, 'now', () => wall);
  });
  afterEach(() => {
    mock.timers.reset();
    mock.restoreAll();
  });

  const pass = (milliseconds: number) => {
    for (let passed = 0; passed < milliseconds; passed += 10) {
      wall += 10;
      mock.timers.tick(10);
    }
  };

  function start() {
    const ticks: number[] = [];
    const stop = startSchedule(1000, () => ticks.push(wall - START));
    afterTest(stop);
    return { ticks, stop };
  }

  it('ticks at every due time and not before', () => {
    wall += 250;
    const { ticks } = start();
    pass(749);
    pass(4000);
    expect(ticks).to.deep.equal([1000, 2000, 3000, 4000, 5000]);
  });

  it('waits on when a timer is early', () => {
    const { ticks } = start();
    wall += 999;
    mock.timers.tick(1000);
    expect(ticks).to.deep.equal([]);
    wall += 1;
    mock.timers.tick(1);
    expect(ticks).to.deep.equal([1000]);
  });

  it('ticks once for all that was slept through', () => {
    const { ticks } = start();
    pass(1000);
    wall += 10_000;
    pass(2000);
    expect(ticks).to.deep.equal([1000, 12_000, 13_000]);
  });

  it('goes on within two intervals when the clock is set back', () => {
    const { ticks } = start();
    pass(1000);
    wall -= 3_600_000;
    pass(5000);
    expect(ticks).to.deep.equal([1000, -3_597_000, -3_596_000, -3_595_000, -3_594_000]);
  });

  it('ticks no more once it is stopped, even by a tick', () => {
    const { ticks, stop } = start();
    pass(1000);
    stop();
    pass(5000);
    expect(ticks).to.deep.equal([1000]);
  });
});
