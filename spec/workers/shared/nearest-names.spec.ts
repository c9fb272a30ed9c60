import { expect } from 'chai';
import { nearestNames } from '../../../workers/shared/nearest-names.ts';

describe('the nearest names', () => {
  it('are at most three, nearest first, and none if none is near or a name is long', () => {
    const names = ['resizes', 'resize', 'rezise', 'resized', 'sum', 'uppercase'];
    expect(nearestNames('Resize', names)).to.deep.equal(['resize', 'resizes', 'resized']);
    expect(nearestNames('smu', names)).to.deep.equal(['sum']);
    expect(nearestNames('rezise', ['resize'])).to.deep.equal(['resize']);
    expect(nearestNames('kitten', ['sitting'])).to.deep.equal([]);
    expect(nearestNames('x'.repeat(64), ['x'.repeat(65)])).to.deep.equal([]);
    expect(nearestNames('anything', names)).to.deep.equal([]);
    expect(nearestNames('b', ['a', 'c'])).to.deep.equal([]);
    expect(nearestNames('x'.repeat(100_000), names)).to.deep.equal([]);
  });
});
