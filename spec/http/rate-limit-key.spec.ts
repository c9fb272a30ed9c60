import { expect } from 'chai';
import { rateLimitKey } from '../../main/http/rate-limit-key.ts';

describe('http/rate-limit-key', () => {
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
