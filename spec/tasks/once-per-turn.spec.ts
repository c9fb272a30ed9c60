import { expect } from 'chai';
import { oncePerTurn } from '../../main/tasks/once-per-turn.ts';

describe('oncePerTurn', () => {
  it('runs once after all promises that are due, however many of them call it, and again in the next turn', async () => {
    const order: string[] = [];
    const run = oncePerTurn(() => order.push('run'));
    for (let turn = 0; turn < 2; turn++) {
      await new Promise(setImmediate);
      for (const name of ['one', 'other']) {
        void Promise.resolve().then(() => {
          run();
          order.push(name);
        });
      }
      await new Promise(setImmediate);
    }
    expect(order).to.deep.equal(['one', 'other', 'run', 'one', 'other', 'run']);
  });
});
