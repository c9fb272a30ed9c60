import { expect } from 'chai';
import fc from 'fast-check';
import type { LiveCounts } from '../../main/tasks/queue.ts';
import { queueHistory } from '../../main/tasks/queue-history.ts';
import { NO_COUNTS } from './no-counts.ts';

const START = 1_790_000_000;

/** A history whose totals the spec changes, on a clock in seconds after the start. */
function startHistory(initial: Partial<LiveCounts> = {}, saved?: string, at = 0) {
  const history = queueHistory((START + at) * 1000, saved);
  const totals = { ...NO_COUNTS, ...initial };
  const advance = (seconds: number) => history.advance({ ...totals }, Math.round((START + seconds) * 1000));
  advance(at);
  return { history, totals, advance };
}

describe('the history of the queue', () => {
  it('has a number of each kind of event for each complete second', () => {
    const { history, totals, advance } = startHistory();
    Object.assign(totals, { accepted: 3, retried: 1, waiting: 1, retrying: 1, inFlight: 1 });
    advance(1.001);
    Object.assign(totals, { completed: 1, failed: 1, dead: 1, cancelled: 1, waiting: 0, retrying: 0, inFlight: 0 });
    advance(2);
    totals.accepted += 1;
    totals.refused += 4;
    advance(2.999);
    const retried = { retried: [1, 0], refused: [0, 0], depth: [3, 0] };
    const ends = { accepted: [3, 0], completed: [0, 1], failed: [0, 1], ...retried };
    expect(history.read()).to.deep.equal({ end: START + 1, seconds: 2, ...ends, starts: [START] });
    advance(3);
    expect(history.read().refused).to.deep.equal([0, 0, 4]);
    expect(history.lastMinute('refused')).to.equal(4);
  });

  it('counts redriven dead letters as accepted, but not those that were purged', () => {
    const { history, totals, advance } = startHistory({ accepted: 5, failed: 5, dead: 5 });
    Object.assign(totals, { dead: 3, waiting: 2 });
    advance(1);
    Object.assign(totals, { dead: 0, dropped: 3 });
    advance(2);
    expect(history.read()).to.deep.include({ accepted: [2, 0], failed: [0, 0], depth: [2, 2] });
  });

  it('keeps 900 seconds', () => {
    const { history, totals, advance } = startHistory();
    for (let second = 1; second <= 1000; second++) {
      Object.assign(totals, { accepted: second, waiting: second });
      advance(second);
    }
    const depth = Array.from({ length: 900 }, (_, index) => 101 + index);
    const kept = { end: START + 999, seconds: 900, accepted: Array(900).fill(1), depth };
    expect(history.read()).to.deep.include(kept);
  });

  it('counts all events of a stall in its first second, and is idle for the time that a suspended machine skips', () => {
    const { history, totals, advance } = startHistory();
    Object.assign(totals, { accepted: 2, waiting: 7 });
    advance(4.2);
    expect(history.read()).to.deep.include({ end: START + 3, accepted: [2, 0, 0, 0], depth: [7, 7, 7, 7] });
    advance(1e6);
    const idle = { end: START + 1e6 - 1, accepted: Array(900).fill(0), depth: Array(900).fill(7) };
    expect(history.read()).to.deep.include(idle);
  });

  it('continues after the totals were reset', () => {
    const { history, totals, advance } = startHistory({ completed: 100 });
    totals.completed = 2;
    advance(1);
    totals.completed = 5;
    advance(2);
    expect(history.read()).to.deep.include({ completed: [0, 3] });
  });

  it('has the sums of each complete minute, for 24 hours', () => {
    const { history, totals, advance } = startHistory();
    // The epoch's minutes begin 40 seconds later.
    for (let second = 1; second <= 200; second++) {
      totals.completed += 1;
      totals.waiting = second;
      advance(second);
    }
    const minutes = { end: START + 100, minutes: 3, completed: [40, 60, 60], depth: [40, 100, 160] };
    expect(history.read(0, 60)).to.deep.include(minutes);
    expect(history.read(START + 40, 60)).to.deep.include({ minutes: 1, completed: [60] });
    advance(100_010);
    expect(history.read(0, 60)).to.deep.include({ minutes: 1439 });
  });

  it('continues after a restart, which it marks, and is idle between', () => {
    const before = startHistory();
    Object.assign(before.totals, { completed: 5, waiting: 2 });
    before.advance(1);
    const { history, totals, advance } = startHistory({ completed: 7 }, before.history.save(), 100);
    totals.completed += 1;
    advance(101);
    const completed = [5, ...Array(99).fill(0), 1];
    const starts = [START, START + 100];
    expect(history.read()).to.deep.include({ end: START + 100, seconds: 101, completed, starts });
    expect(history.read(0, 60)).to.deep.include({ minutes: 2, completed: [5, 0] });
    for (const damaged of ['', '{', '{}', 'null', '{"series":[],"starts":[]}', '{"series":[{}],"starts":[1]}'])
      expect(startHistory({}, damaged).history.read()).to.include({ seconds: 0 });
    const future = startHistory({}, history.save(), -100);
    expect(future.history.read()).to.deep.include({ seconds: 0, starts: [START - 100] });
  });

  it('loses and invents no event, however late the totals arrive', () => {
    const step = fc.record({ events: fc.nat(5), seconds: fc.double({ min: 0, max: 5, noNaN: true }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const { history, totals, advance } = startHistory();
        let clock = 0;
        for (const { events, seconds } of steps) {
          totals.completed += events;
          clock += seconds;
          advance(clock);
        }
        advance(clock + 5);
        const { seconds, ...columns } = history.read();
        expect(columns.completed.reduce((sum, count) => sum + count, 0)).to.equal(totals.completed);
        for (const name of ['accepted', 'completed', 'failed', 'retried', 'depth'] as const) {
          expect(columns[name]).to.have.length(seconds as number);
        }
      }),
    );
  });
});
