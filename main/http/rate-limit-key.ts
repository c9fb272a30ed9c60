import { isIPv6 } from 'node:net';

const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
/** Number of hextets (16-bit groups) in the /64 prefix of an IPv6 address. */
const NETWORK_HEXTETS = 4;

/**
 * Returns the key of a client address for per-address limits. For IPv6, the key is the /64 network, because a host can
 * use any address in its network. For a closed socket, whose address is an empty string, the key is empty.
 */
export function rateLimitKey(ip: string): string {
  const address = ip.replace(/%.*$/, '');
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address) || address === '::1') return address;
  // The URL parser returns the canonical form, which has at most one `::` and no dotted IPv4 part.
  const [left = '', right] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const before = left.split(':').filter(Boolean);
  const after = (right ?? '').split(':').filter(Boolean);
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return `${[...before, ...zeros, ...after].slice(0, NETWORK_HEXTETS).join(':')}::/64`;
}
