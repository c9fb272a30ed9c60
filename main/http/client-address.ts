import { isIPv6 } from 'node:net';

const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
/** Hextets of the part of an IPv6 address that names a network; the rest is its owner's to choose. */
const NETWORK_HEXTETS = 4;

/**
 * Whose share of a limit a request uses up: an IPv4 address, or the /64 network of an IPv6 address, since who has one
 * of its addresses has them all.
 *
 * @param ip the address as the socket or a trusted proxy tells it; '' where it is not known any more
 */
export function clientAddress(ip: string): string {
  const address = ip.replace(/%.*$/, '');
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address) || address === '::1') return address;
  // The canonical text of a URL's host has a run of zeros at most once, and no dotted part.
  const [left = '', right] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const before = left.split(':').filter(Boolean);
  const after = (right ?? '').split(':').filter(Boolean);
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return `${[...before, ...zeros, ...after].slice(0, NETWORK_HEXTETS).join(':')}::/64`;
}
