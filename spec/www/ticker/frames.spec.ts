import { expect } from 'chai';
import { Frames, MAX_CHARACTERS, MAX_FRAMES } from '../../../www/ticker/frames.ts';

describe('the frames in the drawer for developers', () => {
  it('are the newest 50, newest first, with their numbers, times and sizes', () => {
    const frames = new Frames();
    for (let at = 1; at <= MAX_FRAMES + 7; at++) frames.add(`€${at}`, at);
    expect(frames.newest).to.have.length(MAX_FRAMES);
    expect(frames.newest[0]).to.deep.equal({ number: 57, at: 57, bytes: 5, text: '€57' });
    expect(frames.newest.at(-1)).to.deep.equal({ number: 8, at: 8, bytes: 4, text: '€8' });
  });

  it('are cut off if they are very long, with their full size', () => {
    const frames = new Frames();
    frames.add('x'.repeat(2 * MAX_CHARACTERS), 0);
    expect(frames.newest[0]?.text).to.have.length(MAX_CHARACTERS);
    expect(frames.newest[0]?.bytes).to.equal(2 * MAX_CHARACTERS);
  });
});
