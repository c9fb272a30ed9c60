import { expect } from 'chai';
import fc from 'fast-check';
import { RateLimit, ROUNDING_MS, rateLimitKey, TokenBucket } from '../../main/http/rate-limit.ts';

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

describe('rateLimitKey', () => {
  for (const [ip, share] of [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['::1', '::1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::9', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
    ['', ''],
    ['nonsense', 'nonsense'],
  ] as const) {
    it(`takes ${JSON.stringify(ip)} for ${JSON.stringify(share)}`, () => expect(rateLimitKey(ip)).to.equal(share));
  }

  it('gives neighbours in one /64 one share, and other networks another', () => {
    expect(rateLimitKey('2001:db8::1')).to.equal(rateLimitKey('2001:db8::ffff:2'));
    expect(rateLimitKey('2001:db8:0:1::1')).to.not.equal(rateLimitKey('2001:db8::1'));
  });
});
