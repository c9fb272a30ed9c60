import { expect } from 'chai';
import fc from 'fast-check';
import { defaults } from '../../main/config.ts';
import { shareDescriptors } from '../../main/http/connection-limiter.ts';

const DEFAULT = defaults.tasks.concurrency;

describe('the descriptors', () => {
  it('are shared out so that the process has its own, and each listener some, whatever the limit', () => {
    const limits = fc.integer({ min: 800, max: 2 ** 31 });
    fc.assert(
      fc.property(limits, fc.integer({ min: 1, max: 64 }), (limit, taskThreads) => {
        const { ticker, webSockets, tasks, admin } = shareDescriptors(limit, taskThreads);
        expect(limit - ticker - tasks - admin).to.be.at.least(80 + 10 * taskThreads);
        expect(webSockets).to.be.lessThan(ticker);
        expect(tasks).to.be.lessThan(ticker);
        expect(Math.min(webSockets, tasks, admin)).to.be.greaterThan(0);
      }),
    );
  });

  it('are refused where they leave nothing for connections', () => {
    const { ticker, tasks, admin } = shareDescriptors(132, DEFAULT);
    expect(ticker + tasks + admin).to.equal(32);
    expect(Math.min(ticker, tasks, admin)).to.be.greaterThan(0);
    expect(() => shareDescriptors(131, DEFAULT)).to.throw('the limit of open files is 131: raise it to at least 132');
  });

  it('suffice for 18,000 WebSockets with a limit of 20,000, and for no endless number without a limit', () => {
    expect(shareDescriptors(20_000, DEFAULT).webSockets).to.be.at.least(18_000);
    const { openFiles: _, ...unlimited } = shareDescriptors(Number.POSITIVE_INFINITY, DEFAULT);
    expect(shareDescriptors(1_048_576, DEFAULT)).to.deep.include(unlimited);
  });
});
