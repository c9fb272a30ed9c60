import type { lookup } from 'node:dns';
import { expect } from 'chai';
import { isPublicAddress, lookupPublic } from '../../../main/tasks/callbacks/public-addresses.ts';

const NOT_PUBLIC = [
  ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '100.127.255.255', '127.0.0.1', '127.255.0.1', '169.254.169.254'],
  ...['172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.88.99.1', '192.168.1.1', '198.18.0.1'],
  ...['198.51.100.1', '203.0.113.1', '224.0.0.1', '239.1.1.1', '240.0.0.1', '255.255.255.255'],
  ...['::', '::1', '::127.0.0.1', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:8.8.8.8', '64:ff9b::a00:1'],
  ...['64:ff9b:1::1', '100::1', '2001::1', '2001:db8::1', '2002:7f00:1::', '3fff::1', '5f00::1', 'fc00::1'],
  ...['fd12::1', 'fe80::1', 'fec0::1', 'ff02::1', 'fe80::1%eth0', 'no address'],
];
const PUBLIC = [
  ...['1.1.1.1', '8.8.8.8', '100.63.255.255', '172.32.0.1', '223.255.255.255', '2606:4700::1111', '2a00:1::1'],
];

/** Resolves a name that has these addresses. Returns the error or what was found. */
function resolve(addresses: string[], all: boolean): Promise<unknown> {
  const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  const resolver = (_: string, __: object, callback: (error: null, found: object[]) => void) => callback(null, found);
  return new Promise((done) =>
    lookupPublic(resolver as unknown as typeof lookup)('name.example', { all }, (error, address) =>
      done(error?.message ?? address),
    ),
  );
}

describe('an address', () => {
  it('is public unless it is private, loopback, link-local, multicast, reserved or contains an IPv4 address', () => {
    for (const address of NOT_PUBLIC) expect(isPublicAddress(address), address).to.equal(false);
    for (const address of PUBLIC) expect(isPublicAddress(address), address).to.equal(true);
  });
});

describe('the lookup of a receiver', () => {
  it('returns the public addresses only, and fails if there is none', async () => {
    const addresses = ['10.0.0.1', '1.1.1.1', '::1', '2606:4700::1111'];
    const found = [
      { address: '1.1.1.1', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ];
    expect(await resolve(addresses, true)).to.deep.equal(found);
    expect(await resolve(addresses, false)).to.equal('1.1.1.1');
    for (const all of [true, false])
      expect(await resolve(['10.0.0.1', '::ffff:1.1.1.1'], all)).to.equal('name.example has no public address');
  });
});
