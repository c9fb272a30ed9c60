import { expect } from 'chai';
import { Admission, TURN_BYTES } from '../../main/http/admission.ts';
import { until } from '../support/until.ts';

/** Admits requests with these costs. @returns for each request the event-loop turn of its admission, counted from 0 */
async function turnsOf(costs: readonly number[]): Promise<number[]> {
  const admission = new Admission();
  let turn = 0;
  const turns: number[] = [];
  const one = async (cost: number, index: number) => {
    await admission.enter(cost);
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

describe('the admission of requests', () => {
  it('admits as many bytes in each turn as it has room for, in order', async () => {
    const fifth = Math.ceil(TURN_BYTES / 5);
    expect(await turnsOf(Array(12).fill(fifth))).to.deep.equal([
      ...Array(5).fill(0),
      ...Array(5).fill(1),
      ...Array(2).fill(2),
    ]);
  });

  it('gives a large request a turn of its own, however large it is', async () => {
    expect(await turnsOf([TURN_BYTES, 10 * TURN_BYTES, 1, 1])).to.deep.equal([0, 1, 2, 2]);
  });

  it('admits one that costs more than what is left, and those behind it a turn later', async () => {
    expect(await turnsOf([1, TURN_BYTES, 1])).to.deep.equal([0, 0, 1]);
  });

  it('counts a small request as a KiB', async () => {
    const turns = await turnsOf(Array(257).fill(1));
    expect([turns[255], turns[256]]).to.deep.equal([0, 1]);
  });

  it('starts over when all have entered', async () => {
    const admission = new Admission();
    await admission.enter();
    await Promise.all([admission.enter(), admission.enter(TURN_BYTES)]);
    await admission.enter();
  });
});
