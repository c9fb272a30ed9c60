import { isIPv4, isIPv6 } from 'node:net';

/**
 * Returns whether a listener on `address` answers requests to a host. The check guards against DNS rebinding, where a
 * page reaches the listener under a name of its own and so counts as the same origin.
 *
 * @param allowedHosts hosts beside those of loopback and the address itself. `*` allows all. If empty, a listener on
 * loopback allows no others, and a listener on any other address allows all
 */
export function hostCheck(allowedHosts: readonly string[], address: string): (host: string) => boolean {
  const own = isIPv6(address) ? `[${address}]` : address;
  if (allowedHosts.includes('*') || (allowedHosts.length === 0 && !isLoopback(own))) return () => true;
  const allowed = new Set([...allowedHosts, own]);
  // Browsers never omit the host.
  return (host) => host === '' || allowed.has(host) || isLoopback(host);
}

/** Whether a host in lower case is a loopback name or address. */
function isLoopback(host: string): boolean {
  return /^(.+\.)?localhost\.?$/.test(host) || (isIPv4(host) && host.startsWith('127.')) || host === '[::1]';
}
