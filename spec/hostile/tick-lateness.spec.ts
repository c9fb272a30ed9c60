import { expect } from 'chai';
import { TickLateness } from './tick-lateness.ts';

/** Converts milliseconds after second 1000 to milliseconds since the epoch. */
const at = (milliseconds: number) => 1_000_000 + milliseconds;

describe('the lateness of ticks', () => {
  it('counts from the multiple of the interval at which each tick was due', () => {
    const lateness = new TickLateness(100);
    lateness.record(1000, at(3));
    lateness.record(1000, at(107));
    lateness.record(1000, at(205));
    expect(lateness.worstMs).to.equal(7);
  });

  it('counts ticks of a stall, which arrive together, each from its own due time', () => {
    const lateness = new TickLateness(100);
    lateness.record(1000, at(1));
    for (let tick = 0; tick < 4; tick++) lateness.record(1000, at(450));
    expect(lateness.worstMs).to.equal(350);
  });

  it('takes the second of a tick for its due time after ticks were left out', () => {
    const lateness = new TickLateness(100);
    lateness.record(1000, at(1));
    lateness.record(1005, at(5010));
    expect(lateness.worstMs).to.equal(10);
  });

  it('forgets the longest time, but not which tick comes next', () => {
    const lateness = new TickLateness(100);
    lateness.record(1000, at(90));
    lateness.reset();
    lateness.record(1000, at(320));
    expect(lateness.worstMs).to.equal(220);
  });
});
