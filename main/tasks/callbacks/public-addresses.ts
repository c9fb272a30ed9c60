import { lookup as systemLookup } from 'node:dns';
import { BlockList, isIPv4, type LookupFunction } from 'node:net';

/**
 * Private, reserved, multicast and broadcast networks, and special parts of 2000::/3, the only public part of IPv6, some of
 * which contain IPv4 addresses.
 */
const NOT_PUBLIC = `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
  192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
  2001::/23 2001:db8::/32 2002::/16 3fff::/20`;

const notPublic = new BlockList();
for (const network of NOT_PUBLIC.split(/\s+/)) {
  const [address = '', prefix] = network.split('/');
  notPublic.addSubnet(address, Number(prefix), isIPv4(address) ? 'ipv4' : 'ipv6');
}
const global = new BlockList();
global.addSubnet('2000::', 3, 'ipv6');

/** Whether an address is neither private, loopback, link-local nor special in another way. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !notPublic.check(address, 'ipv4');
  return global.check(address, 'ipv6') && !notPublic.check(address, 'ipv6');
}

/** Resolves a name to its public addresses only, so that a connection has an address that was checked. */
export const publicLookup = lookupPublic(systemLookup);

/** @param lookup resolves a name to all of its addresses */
export function lookupPublic(lookup: typeof systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, []);
      const addresses = found.filter(({ address }) => isPublicAddress(address));
      const [first] = addresses;
      if (first === undefined) callback(new Error(`${hostname} has no public address`), []);
      else if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}
