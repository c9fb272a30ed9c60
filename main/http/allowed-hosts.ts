import { isIPv4, isIPv6 } from 'node:net';

/**
 * Returns whether a listener on `address` answers requests to a host. The check guards against DNS rebinding, where a
 * page reaches the listener under a name of its own and so counts as the same origin.
 *
 * Addresses are always allowed: a page that rebinds DNS has a name.
 *
 * @param allowedHosts hosts beside loopback names and addresses. `*` allows all. If empty, a listener on loopback allows no
 * others, and a listener on any other address allows all
 * @param address where the listener listens
 * @param name configured name of that address, which is allowed
 */
export function hostCheck(allowedHosts: readonly string[], address: string, name?: string): (host: string) => boolean {
  const isLocal = isLoopbackAddress(address);
  if (allowedHosts.includes('*') || (allowedHosts.length === 0 && !isLocal)) return () => true;
  const allowed = new Set([...allowedHosts, name?.toLowerCase()]);
  // Browsers never omit the host.
  return (host) => host === '' || allowed.has(host) || isAddress(host) || isLoopback(host);
}

function isAddress(host: string): boolean {
  return isIPv4(host) || host.startsWith('[');
}

/** Whether a listener on `address` is reached from its own machine only. */
export function isLoopbackAddress(address: string): boolean {
  return isLoopback(isIPv6(address) ? `[${address}]` : address);
}

/** Whether a host in lower case is a loopback name or address. */
function isLoopback(host: string): boolean {
  return /^(.+\.)?localhost\.?$/.test(host) || (isIPv4(host) && host.startsWith('127.')) || host === '[::1]';
}
