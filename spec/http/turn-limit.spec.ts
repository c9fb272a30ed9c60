import { PassThrough } from 'node:stream';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { READING_MS, ReadingLimit, TURN_BYTES, TurnLimit } from '../../main/http/turn-limit.ts';
import { countTurns } from '../support/until.ts';

describe('requests that wait for a turn', () => {
  const fifth = Math.ceil(TURN_BYTES / 5);
  for (const [rule, costs, turns] of [
    ['begin in order, up to the bytes of a turn', Array(12).fill(fifth), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2]],
    ['have a turn of their own if they are large', [TURN_BYTES, 10 * TURN_BYTES, 1, 1], [0, 1, 2, 2]],
    ['may exceed the limit with the last one, and the rest begins a turn later', [1, TURN_BYTES, 1], [0, 0, 1]],
    ['count as at least a KiB', Array(257).fill(1), [...Array(256).fill(0), 1]],
  ] as const) {
    it(rule, async () => {
      const limit = new TurnLimit();
      const turn = countTurns();
      const begun = await Promise.all(costs.map((cost) => limit.enter(cost).then(turn)));
      // Counted from the turn of the first.
      expect(begun.map((each) => each - Math.min(...begun))).to.deep.equal(turns);
    });
  }

  it('take nothing from others if their clients have left, and are refused', async () => {
    const limit = new TurnLimit();
    const order: string[] = [];
    const all = Object.entries({ a: true, b: false, c: true, d: false }).map(([name, closed]) =>
      limit.enter(TURN_BYTES, { closed }).then(
        () => order.push(name),
        ({ message }) => order.push(`${name}: ${message}`),
      ),
    );
    await setImmediate();
    expect(order).to.deep.equal(['a: bad request', 'b']);
    await Promise.all(all);
    expect(order).to.deep.equal(['a: bad request', 'b', 'c: bad request', 'd']);
  });
});

describe('connections that are read for too long in a turn', () => {
  it('are paused, and resumed in slices: an address with more connections than a slice waits for all other addresses', async () => {
    const limit = new ReadingLimit();
    const connections = Array.from({ length: 132 }, () => new PassThrough().resume());
    for (const [index, each] of connections.entries()) limit.add(each, index < 130 ? 'a' : `${index}`);
    const [upgraded, ...others] = connections as [PassThrough, ...PassThrough[]];
    // As by Node, while the client does not read.
    others[0]?.pause();
    const paused = () => others.filter((each) => each.isPaused()).length;
    let now = 0;
    mock.method(performance, 'now', () => now);
    const pausedAfter = (ms: number) => {
      limit.check();
      now += ms;
      limit.check();
      return paused();
    };
    expect([pausedAfter(READING_MS - 1), pausedAfter(1), upgraded.isPaused()]).to.deep.equal([1, 131, true]);
    others[128]?.resume();
    limit.delete(upgraded);
    const turns: number[] = [];
    for (let turn = 0; turn < 4; turn++) turns.push(await setImmediate().then(paused));
    expect([turns, upgraded.isPaused()]).to.deep.equal([[68, 66, 1, 1], true]);
    upgraded.resume();
    expect([pausedAfter(READING_MS - 1), pausedAfter(1), upgraded.isPaused()]).to.deep.equal([1, 131, false]);
  });
});
