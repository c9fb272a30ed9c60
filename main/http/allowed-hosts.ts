import { isIPv4, isIPv6 } from 'node:net';

/**
 * Returns a function that tells whether a listener accepts requests to a host. It guards against DNS rebinding, where an
 * attacker's page points its own name at the listener and so has the same origin.
 *
 * IP addresses are always allowed, because DNS rebinding needs a name.
 *
 * @param allowedHosts hosts allowed beside loopback names and IP addresses. `*` allows all. If empty, a listener on
 * loopback allows no others, and a listener on any other address allows all
 * @param address address that the listener is bound to
 * @param name configured name of that address, which is allowed
 */
export function hostCheck(allowedHosts: readonly string[], address: string, name?: string): (host: string) => boolean {
  const isLocal = isLoopbackAddress(address);
  if (allowedHosts.includes('*') || (allowedHosts.length === 0 && !isLocal)) return () => true;
  const allowed = new Set([...allowedHosts, name?.toLowerCase()]);
  // The empty host is allowed, because browsers never omit the host.
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
