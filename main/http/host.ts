import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';

/** A registered name or IPv4 address, or an IPv6 address in brackets, and an optional port (RFC 9112, 3.2). */
const HOST = /^(?:([\w.~!$&'()*+;=%-]+)|\[([\da-f:.]+)\])(?::(\d{0,5}))?$/i;
const MAX_PORT = 65_535;

/**
 * Returns the host of a request in lower case, without its port: a name, an IPv4 address, or an IPv6 address in brackets.
 *
 * @returns '' for an HTTP/1.0 request without `Host`; undefined if `Host` is missing, repeated or invalid
 */
export function hostOf({ rawHeaders, headers, httpVersion }: IncomingMessage): string | undefined {
  const value = headers.host;
  if (value === undefined) return httpVersion === '1.0' ? '' : undefined;
  return isRepeated(rawHeaders) ? undefined : parseHost(value);
}

/** Returns the host of a `Host` header in lower case, without its port, or undefined if the header is invalid. */
export function parseHost(value: string): string | undefined {
  const [, name, ipv6, port = ''] = HOST.exec(value) ?? [];
  if (Number(port) > MAX_PORT) return undefined;
  // A URL canonicalizes the address.
  if (ipv6 !== undefined) return isIPv6(ipv6) ? new URL(`http://[${ipv6}]`).hostname : undefined;
  return name?.toLowerCase();
}

/** Whether `Host` occurs more than once. `headers` has only the first. */
function isRepeated(rawHeaders: readonly string[]): boolean {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count++;
  }
  return count > 1;
}

/** Whether a text is a canonical host without a port, in any case. */
export function isHost(text: string): boolean {
  return parseHost(text) === text.toLowerCase();
}

/** Whether a text is a web origin as browsers send it in `Origin`. */
export function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}
