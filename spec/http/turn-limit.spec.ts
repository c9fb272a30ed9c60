import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { TURN_BYTES, TurnLimit } from '../../main/http/turn-limit.ts';
import { until } from '../support/until.ts';

/** Begins work of these costs. @returns for each piece of work the event loop turn in which it began, counted from 0 */
async function turnsOf(costs: readonly number[]): Promise<number[]> {
  const limit = new TurnLimit();
  let turn = 0;
  const turns: number[] = [];
  const one = async (cost: number, index: number) => {
    await limit.enter(cost);
    turns[index] = turn;
  };
  let done = false;
  const all = Promise.all(costs.map(one)).then(() => {
    done = true;
  });
  await until(() => {
    turn += 1;
    return done;
  });
  await all;
  return turns.map((each) => each - (turns[0] as number));
}

describe('requests that wait for a turn', () => {
  it('begin in order, up to the bytes of a turn', async () => {
    const fifth = Math.ceil(TURN_BYTES / 5);
    expect(await turnsOf(Array(12).fill(fifth))).to.deep.equal([
      ...Array(5).fill(0),
      ...Array(5).fill(1),
      ...Array(2).fill(2),
    ]);
  });

  it('have a turn of their own if they are large', async () => {
    expect(await turnsOf([TURN_BYTES, 10 * TURN_BYTES, 1, 1])).to.deep.equal([0, 1, 2, 2]);
  });

  it('may exceed the limit with the last one, and the rest begins a turn later', async () => {
    expect(await turnsOf([1, TURN_BYTES, 1])).to.deep.equal([0, 0, 1]);
  });

  it('take nothing from others if their clients have left, and are refused', async () => {
    const limit = new TurnLimit();
    const order: string[] = [];
    const listing = (name: string, closed: boolean) =>
      limit.enter(TURN_BYTES, { closed }).then(
        () => order.push(name),
        ({ message }) => order.push(`${name}: ${message}`),
      );
    const all = [listing('a', true), listing('b', false), listing('c', true), listing('d', false)];
    await setImmediate();
    expect(order).to.deep.equal(['a: bad request', 'b']);
    await Promise.all(all);
    expect(order).to.deep.equal(['a: bad request', 'b', 'c: bad request', 'd']);
  });

  it('count as at least a KiB', async () => {
    const turns = await turnsOf(Array(257).fill(1));
    expect([turns[255], turns[256]]).to.deep.equal([0, 1]);
  });
});
