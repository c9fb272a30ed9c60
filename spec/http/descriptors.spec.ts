import { expect } from 'chai';
import fc from 'fast-check';
import { openFilesLimit, shareDescriptors } from '../../main/http/descriptors.ts';

describe('the descriptors', () => {
  it('are shared out so that some are left, whatever the limit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 24, max: 2 ** 31 }), (limit) => {
        const { ticker, webSockets, tasks } = shareDescriptors(limit);
        expect(limit - ticker - tasks).to.be.at.least(Math.min(Math.floor(limit / 8), 300));
        expect(tasks).to.be.at.least(Math.min(Math.floor(limit / 8), 1200));
        expect(webSockets).to.be.lessThan(ticker);
        expect(Math.min(webSockets, tasks)).to.be.greaterThan(0);
      }),
    );
  });

  it('suffice for 18,000 WebSockets with a limit of 20,000, and for no endless number without a limit', () => {
    expect(shareDescriptors(20_000).webSockets).to.be.at.least(18_000);
    expect(shareDescriptors(Number.POSITIVE_INFINITY)).to.deep.equal(shareDescriptors(1_048_576));
  });

  it('are as many as the system says', () => {
    expect(openFilesLimit()).to.be.at.least(256);
  });
});
