import { expect } from 'chai';
import fc from 'fast-check';
import { preferredWait } from '../../../main/tasks/http/prepare-submission.ts';

describe('the preference to wait', () => {
  it('is read in any form that RFC 7240 allows, and is 30 s at most', () => {
    for (const [prefer, seconds] of Object.entries({
      ...{ 'wait=10': 10, 'wait=0': 0, 'wait=31': 30, 'wait=999999999': 30, 'Wait = "5"': 5 },
      ...{ 'respond-async, wait=3': 3, 'wait=3; because="of this"': 3, 'wait=1, wait=2': 1 },
    }))
      expect(preferredWait({ prefer }), prefer).to.equal(seconds);
  });

  it('is none, and no error, if it is missing or malformed', () => {
    const malformed = ['', 'wait', 'wait=', 'wait=-1', 'wait=1.5', 'wait=ten', 'await=5', 'wait=5s', 'return=minimal'];
    for (const prefer of malformed) expect(preferredWait({ prefer }), prefer).to.equal(0);
    expect(preferredWait({})).to.equal(0);
  });

  it('is from 0 to 30, whatever the header holds', () => {
    fc.assert(
      fc.property(fc.string(), (prefer) => {
        expect(preferredWait({ prefer })).to.be.within(0, 30);
      }),
    );
  });
});
