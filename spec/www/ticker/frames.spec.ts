import { expect } from 'chai';
import { Frames, MAX_CHARACTERS } from '../../../www/ticker/frames.ts';

describe('the frames in the drawer for developers', () => {
  it('are cut off if they are very long, with their full size', () => {
    const frames = new Frames();
    frames.add('x'.repeat(2 * MAX_CHARACTERS), 0);
    expect(frames.newest[0]?.text).to.have.length(MAX_CHARACTERS);
    expect(frames.newest[0]?.bytes).to.equal(2 * MAX_CHARACTERS);
  });
});
