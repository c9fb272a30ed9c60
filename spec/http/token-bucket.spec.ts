import { expect } from 'chai';
import fc from 'fast-check';
import { ROUNDING_MS, TokenBucket } from '../../main/http/token-bucket.ts';

describe('TokenBucket', () => {
  it('allows a burst of its size at once, and then one an interval', () => {
    const rate = new TokenBucket(50, 2);
    const allowed = (now: number, tries: number) => {
      let count = 0;
      for (let i = 0; i < tries; i++) if (rate.take(now) === 0) count++;
      return count;
    };
    expect(allowed(1000, 1000)).to.equal(100);
    expect(allowed(1019, 10)).to.equal(0);
    expect(allowed(1020, 10)).to.equal(1);
    expect(allowed(1100, 10)).to.equal(4);
    expect(allowed(99_000, 1000)).to.equal(100);
  });

  it('allows the whole burst at any fraction of a millisecond', () => {
    const rates = fc.integer({ min: 1, max: 1000 });
    const starts = fc.double({ min: 1, max: 1e9, noNaN: true });
    fc.assert(
      fc.property(rates, starts, (perSecond, start) => {
        const rate = new TokenBucket(perSecond, 2);
        const allowed = Array.from({ length: 3 * perSecond }, () => rate.take(start) === 0);
        expect(allowed.filter(Boolean)).to.have.lengthOf(2 * perSecond);
      }),
    );
  });

  it('never allows more than it says, and everything to a client that keeps to it', () => {
    const rates = fc.integer({ min: 1, max: 1000 });
    const gaps = fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(rates, gaps, (perSecond, all) => {
        const rate = new TokenBucket(perSecond, 2);
        const polite = new TokenBucket(perSecond, 2);
        const start = 5000;
        let now = start;
        let allowed = 0;
        for (const [index, gap] of all.entries()) {
          now += gap;
          if (rate.take(now) === 0) allowed++;
          expect(polite.take(start + (index * 1000) / perSecond)).to.equal(0);
        }
        expect(allowed).to.be.at.most(((now - start + 2000 + ROUNDING_MS) * perSecond) / 1000 + 1e-6);
      }),
    );
  });
});
