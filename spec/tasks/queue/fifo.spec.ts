import { expect } from 'chai';
import fc from 'fast-check';
import { Fifo } from '../../../main/tasks/queue/fifo.ts';

/** An operation on a FIFO: a number of pushes or shifts, or one item put back behind a number of items. */
type Step = { push: number } | { shift: number } | { putBackBehind: number };

const step = fc.oneof(
  fc.record({ push: fc.integer({ min: 1, max: 3000 }) }),
  fc.record({ shift: fc.integer({ min: 1, max: 3000 }) }),
  fc.record({ putBackBehind: fc.integer({ min: 0, max: 5 }) }),
);

describe('Fifo', () => {
  it('does what an array does, across many cuts', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const fifo = new Fifo<number>();
        const array: number[] = [];
        let next = 0;
        for (const step of steps as Step[]) {
          if ('putBackBehind' in step) {
            const preceding = new Set(array.slice(0, step.putBackBehind));
            array.splice(preceding.size, 0, next);
            fifo.putBack(next++, (other) => preceding.has(other));
          } else if ('push' in step) {
            for (let i = 0; i < step.push; i++) {
              array.push(next);
              fifo.push(next++);
            }
          } else {
            const taken = Array.from({ length: step.shift }, () => fifo.shift());
            const expected = Array.from({ length: step.shift }, () => array.shift());
            expect(taken).to.deep.equal(expected);
          }
          expect(fifo.size).to.equal(array.length);
        }
        expect(array.map(() => fifo.shift())).to.deep.equal(array);
      }),
      { numRuns: 50 },
    );
  });

  it('gives undefined when it is empty, and goes on after that', () => {
    const fifo = new Fifo<string>();
    expect(fifo.shift()).to.equal(undefined);
    fifo.push('a');
    expect([fifo.shift(), fifo.shift(), fifo.size]).to.deep.equal(['a', undefined, 0]);
    fifo.putBack('b', () => false);
    expect([fifo.size, fifo.shift()]).to.deep.equal([1, 'b']);
  });

  it('holds items that are undefined', () => {
    const fifo = new Fifo<undefined>();
    fifo.push(undefined);
    fifo.push(undefined);
    expect(fifo.size).to.equal(2);
    fifo.shift();
    expect(fifo.size).to.equal(1);
  });
});
