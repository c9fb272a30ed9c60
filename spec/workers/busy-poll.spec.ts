import { mock } from 'node:test';
import { expect } from 'chai';
import { busyPoll } from '../../workers/busy-poll.ts';

describe('busyPoll', () => {
  /** Callbacks for the next event-loop turn. */
  let turn: (() => void)[] = [];
  let nowMs = 0;

  beforeEach(() => {
    [turn, nowMs] = [[], 1000];
    mock.method(performance, 'now', () => nowMs);
    mock.method(globalThis, 'setImmediate', (callback: () => void) => turn.push(callback));
  });
  afterEach(() => mock.restoreAll());

  /** Runs one event-loop turn, `ms` after the previous one. */
  const pass = (ms: number) => {
    nowMs += ms;
    for (const callback of turn.splice(0)) callback();
  };
  const keepsAwake = () => turn.length > 0;

  it('keeps the event loop awake for a fraction of a millisecond, once however often it begins', () => {
    const poll = busyPoll(2);
    expect(keepsAwake()).to.equal(false);
    poll.begin();
    poll.begin();
    for (let turns = 0; turns < 2; turns++) {
      expect(turn).to.have.length(1);
      pass(0.1);
    }
    expect(keepsAwake()).to.equal(true);
    pass(0.2);
    expect(keepsAwake()).to.equal(false);
    poll.begin();
    expect(keepsAwake()).to.equal(true);
  });

  it('goes on for longer if it begins again', () => {
    const poll = busyPoll(2);
    poll.begin();
    pass(0.2);
    poll.begin();
    pass(0.2);
    expect(keepsAwake()).to.equal(true);
    pass(0.2);
    expect(keepsAwake()).to.equal(false);
  });

  it('stops at the next turn when it is told to', () => {
    const poll = busyPoll(2);
    poll.begin();
    poll.end();
    pass(0);
    expect(keepsAwake()).to.equal(false);
  });

  it('does nothing on a single core, which the threads need', () => {
    busyPoll(1).begin();
    expect(keepsAwake()).to.equal(false);
  });
});
