import { expect } from 'chai';
import { oncePerTurn } from '../../../workers/shared/clock.ts';

describe('oncePerTurn', () => {
  it('runs once after all promises that are due, however many of them call it, and again in the next turn', async () => {
    const order: string[] = [];
    const run = oncePerTurn(() => order.push('run'));
    for (let turn = 0; turn < 2; turn++) {
      for (const name of ['one', 'other']) {
        void Promise.resolve().then(() => {
          run();
          order.push(name);
        });
      }
      // The first callback was scheduled before those of the promises.
      for (let end = 0; end < 2; end++) await new Promise(setImmediate);
    }
    expect(order).to.deep.equal(['one', 'other', 'run', 'one', 'other', 'run']);
  });
});
