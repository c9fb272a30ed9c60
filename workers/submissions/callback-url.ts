import { isIPv4, isIPv6 } from 'node:net';

const LONGEST_URL = 2048;
const LONGEST_HOST = 253;
const HOST_AND_PORT = /^([\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i;

/** Whether `text` is a host name in ASCII or an address, in canonical form except for case, with or without a port. */
export function isCallbackHost(text: string): boolean {
  const [, host = '', port = '80'] = HOST_AND_PORT.exec(text) ?? [];
  const url = URL.parse(`http://${host}`);
  const isHost = url !== null && url.hostname === host.toLowerCase() && url.host === url.hostname;
  return isHost && host.length <= LONGEST_HOST && Number(port) >= 1 && Number(port) <= 65_535;
}

/**
 * Checks a callback URL.
 *
 * @param hosts allowed hosts in lower case: `host` for the default port of the scheme, `host:port` for that port
 * @returns the normalised URL, or the reason why it is refused
 */
export function readCallbackUrl(value: unknown, hosts: readonly string[]): { url: string } | { wrong: string } {
  if (typeof value !== 'string') return { wrong: 'must be a text' };
  const url = URL.parse(value);
  if (url === null) return { wrong: 'must be a URL' };
  if (value.length > LONGEST_URL || url.href.length > LONGEST_URL)
    return { wrong: `must have at most ${LONGEST_URL} characters` };
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return { wrong: 'must begin with https:// or http://' };
  if (url.username !== '' || url.password !== '') return { wrong: 'must have no user name and no password' };
  if (!allowsHost(url, hosts)) return { wrong: `the host ${url.host} is not in CALLBACK_HOSTS` };
  url.hash = '';
  return { url: url.href };
}

function allowsHost({ protocol, hostname, port }: URL, hosts: readonly string[]): boolean {
  const isDefault = port === '' && hosts.includes(hostname);
  return isDefault || hosts.includes(`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`);
}

/** Whether callbacks to a host that is allowed may go to private addresses: it is an address itself, or `localhost`. */
export function isLocalByName(hostname: string): boolean {
  return hostname === 'localhost' || isIPv4(hostname) || isIPv6(hostname.replace(/^\[|\]$/g, ''));
}
