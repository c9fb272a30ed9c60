import { expect } from 'chai';
import fc from 'fast-check';
import { Distribution, DURATIONS } from '../../main/figures/distribution.ts';
import { noteDuration } from '../../workers/note-duration.ts';

const duration = fc.double({ min: 0, max: 20, noNaN: true });

describe('a distribution', () => {
  it('counts what is up to each bound, the bound itself included', () => {
    const distribution = new Distribution([1, 2]);
    for (const seconds of [0, 1, 1.5, 2, 3]) distribution.observe(seconds);
    expect(distribution.cumulative()).to.deep.equal({ upTo: [2, 4], count: 5, sum: 7.5 });
  });

  it('agrees with a plain count, whatever is observed', () => {
    fc.assert(
      fc.property(fc.array(duration), (durations) => {
        const distribution = new Distribution(DURATIONS);
        for (const seconds of durations) distribution.observe(seconds);
        const { upTo, count, sum } = distribution.cumulative();
        expect(upTo).to.deep.equal(DURATIONS.map((bound) => durations.filter((each) => each <= bound).length));
        expect(count).to.equal(durations.length);
        expect(sum).to.equal(durations.reduce((total, each) => total + each, 0));
      }),
    );
  });

  it('reads what a thread notes at its place in shared memory', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(2), duration)), (notes) => {
        const cells = new SharedArrayBuffer(3 * Distribution.bytes(DURATIONS));
        for (const [place, seconds] of notes) noteDuration({ bounds: DURATIONS, cells }, place, seconds);
        for (const place of [0, 1, 2]) {
          const expected = new Distribution(DURATIONS);
          for (const [where, seconds] of notes) if (where === place) expected.observe(seconds);
          expect(new Distribution(DURATIONS, cells, place).cumulative()).to.deep.equal(expected.cumulative());
        }
      }),
    );
  });
});
