import { expect } from 'chai';
import fc from 'fast-check';
import { ROUNDING_MS, rateLimit, rateLimitKey, TokenBucket } from '../../main/http/rate-limit.ts';

describe('the rate limit', () => {
  it('remembers a limited number of addresses, and evicts the one idle longest', () => {
    const limit = rateLimit({ perMinute: 2, maxAddresses: 2 });
    for (const [now, address] of ['a', 'b', 'a', 'c'].entries()) limit.take(address, now);
    expect(limit.size).to.equal(2);
    expect([limit.take('a', 4), limit.take('a', 4)], 'a refusal takes no token').to.deep.equal([29_996, 29_996]);
    expect([limit.take('b', 5), limit.take('b', 5)]).to.deep.equal([0, 0]);
    const many = rateLimit({ perMinute: 2 });
    for (let address = 0; address <= 100_000; address++) many.take(`${address}`, 0);
    expect(many.size, 'by default').to.equal(100_000);
  });

  it('has buckets that never allow more than they say, and everything to a client that keeps to that, the whole burst included, at any fraction of a millisecond', () => {
    const rates = fc.integer({ min: 1, max: 1000 });
    const starts = fc.double({ min: 1, max: 1e9, noNaN: true });
    const gaps = fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(rates, starts, gaps, (perSecond, start, all) => {
        const bucket = () => new TokenBucket(perSecond, 2);
        const [rate, polite, burst] = [bucket(), bucket(), bucket()];
        let now = start;
        let allowed = 0;
        for (const [index, gap] of all.entries()) {
          now += gap;
          if (rate.take(now) === 0) allowed++;
          expect(polite.take(start + (index * 1000) / perSecond)).to.equal(0);
        }
        expect(allowed).to.be.at.most(((now - start + 2000 + ROUNDING_MS) * perSecond) / 1000 + 1e-6);
        const atOnce = Array.from({ length: 3 * perSecond }, () => burst.take(start) === 0);
        expect(atOnce.filter(Boolean)).to.have.lengthOf(2 * perSecond);
      }),
    );
  });

  it('has as its key the address, and for IPv6 the /64 network', () => {
    for (const [ip, key] of Object.entries({
      ...{ '192.0.2.7': '192.0.2.7', '::ffff:192.0.2.7': '192.0.2.7', '::FFFF:192.0.2.7': '192.0.2.7', '::1': '::1' },
      '2001:db8:1:2:3:4:5:6': '2001:db8:1:2::/64',
      '2001:DB8:1:2::9': '2001:db8:1:2::/64',
      '2001:db8::9': '2001:db8:0:0::/64',
      'fe80::1%eth0': 'fe80:0:0:0::/64',
      '::': '0:0:0:0::/64',
      '64:ff9b::192.0.2.7': '64:ff9b:0:0::/64',
      ...{ '': '', nonsense: 'nonsense' },
    }))
      expect(rateLimitKey(ip), ip).to.equal(key);
  });
});
