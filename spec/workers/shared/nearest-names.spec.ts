import { expect } from 'chai';
import { editsBetween, nearestNames } from '../../../workers/shared/nearest-names.ts';

describe('the nearest names', () => {
  it('count insertions, deletions, replacements and transpositions', () => {
    for (const [one, other, edits] of [
      ['', 'abc', 3],
      ['resize', 'resize', 0],
      ['resize', 'rezise', 2],
      ['resize', 'reszie', 1],
      ['resize', 'size', 2],
      ['kitten', 'sitting', 3],
      ['x'.repeat(65), 'x'.repeat(64), Number.POSITIVE_INFINITY],
    ] as const)
      expect([editsBetween(one, other), editsBetween(other, one)], `${one} ${other}`).to.deep.equal([edits, edits]);
  });

  it('are at most three, nearest first, and none if none is near', () => {
    const names = ['resizes', 'resize', 'rezise', 'resized', 'sum', 'uppercase'];
    expect(nearestNames('Resize', names)).to.deep.equal(['resize', 'resizes', 'resized']);
    expect(nearestNames('smu', names)).to.deep.equal(['sum']);
    expect(nearestNames('anything', names)).to.deep.equal([]);
    expect(nearestNames('b', ['a', 'c'])).to.deep.equal([]);
    expect(nearestNames('x'.repeat(100_000), names)).to.deep.equal([]);
  });
});
