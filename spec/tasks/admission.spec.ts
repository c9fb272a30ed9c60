import { expect } from 'chai';
import { Admission, LISTING } from '../../main/tasks/admission.ts';
import { until } from '../support/until.ts';

/** Has requests ask to be let in, each with its cost, and notes in which turn of the event loop each is. */
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
  return turns;
}

describe('the admission of requests', () => {
  it('lets a few in each turn, in their order', async () => {
    const turns = await turnsOf(Array(12).fill(1));
    expect(turns).to.deep.equal(turns.toSorted((one, other) => one - other));
    const [first = 0] = turns;
    expect(turns.map((turn) => turn - first)).to.deep.equal([
      ...Array(5).fill(0),
      ...Array(5).fill(1),
      ...Array(2).fill(2),
    ]);
  });

  it('gives a listing a turn of its own', async () => {
    const turns = await turnsOf([LISTING, LISTING, 1, 1]);
    const [first = 0] = turns;
    expect(turns.map((turn) => turn - first)).to.deep.equal([0, 1, 2, 2]);
  });

  it('lets one in that costs more than what is left, and those behind it a turn later', async () => {
    const turns = await turnsOf([1, LISTING, 1]);
    const [first = 0] = turns;
    expect(turns.map((turn) => turn - first)).to.deep.equal([0, 0, 1]);
  });

  it('begins anew when all were in', async () => {
    const admission = new Admission();
    await admission.enter();
    await Promise.all([admission.enter(), admission.enter(LISTING)]);
    await admission.enter();
  });
});
