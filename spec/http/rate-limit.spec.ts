import { expect } from 'chai';
import fc from 'fast-check';
import { RateLimit } from '../../main/http/rate-limit.ts';

describe('RateLimit', () => {
  it("lets a minute's worth through at once, and then one after each share of the minute", () => {
    const limit = new RateLimit({ perMinute: 60 });
    for (let i = 0; i < 60; i++) expect(limit.take('a', 5)).to.equal(0);
    expect(limit.take('a', 5)).to.be.closeTo(1000, 1e-6);
    expect(limit.take('a', 504)).to.be.closeTo(501, 1e-6);
    expect(limit.take('a', 1005)).to.equal(0);
    expect(limit.take('a', 1005)).to.be.closeTo(1000, 1e-6);
    for (let i = 0; i < 60; i++) expect(limit.take('a', 100_000)).to.equal(0);
  });

  it('keeps addresses apart', () => {
    const limit = new RateLimit({ perMinute: 1 });
    expect(limit.take('a', 0)).to.equal(0);
    expect(limit.take('a', 0)).to.be.above(0);
    expect(limit.take('b', 0)).to.equal(0);
  });

  it('remembers a limited number of addresses, and evicts the one idle longest', () => {
    const limit = new RateLimit({ perMinute: 2, maxAddresses: 2 });
    limit.take('a', 0);
    limit.take('b', 1);
    limit.take('a', 2);
    limit.take('c', 3);
    expect(limit.size).to.equal(2);
    expect(limit.take('a', 4)).to.be.above(0);
    expect(limit.take('b', 5)).to.equal(0);
    expect(limit.take('b', 5)).to.equal(0);
  });

  it("never lets more through in any minute than a minute's worth and what fills up meanwhile", () => {
    const gaps = fc.array(fc.integer({ min: 0, max: 20_000 }), { maxLength: 100 });
    fc.assert(
      fc.property(gaps, fc.integer({ min: 1, max: 20 }), (waits, perMinute) => {
        const limit = new RateLimit({ perMinute });
        const taken: number[] = [];
        let now = 0;
        for (const wait of waits) {
          now += wait;
          const refused = limit.take('a', now);
          if (refused === 0) taken.push(now);
          else expect(refused).to.be.within(0, 60_000 / perMinute + 1);
          const lastMinute = taken.filter((at) => at > now - 60_000).length;
          expect(lastMinute).to.be.at.most(2 * perMinute);
        }
      }),
    );
  });

  it('lets one through that has waited as long as it was told', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 0, max: 1e9 }), (perMinute, start) => {
        const limit = new RateLimit({ perMinute });
        let refused = 0;
        for (let i = 0; i < perMinute; i++) if (limit.take('a', start) !== 0) refused++;
        expect(refused).to.equal(0);
        const wait = limit.take('a', start);
        expect(wait).to.be.above(0);
        expect(limit.take('a', start + wait)).to.equal(0);
      }),
      { numRuns: 20 },
    );
  });
});
