import type { IncomingMessage } from 'node:http';
import { isIPv4, isIPv6 } from 'node:net';
import cors from '@koa/cors';
import type { Context, Middleware } from 'koa';
import { HttpError } from './errors.ts';

/** `Host` header (RFC 9112, section 3.2): name, IPv4 address or bracketed IPv6 address, then an optional port. */
const HOST = /^(?:([\w.~!$&'()*+;=%-]+)|\[([\da-f:.]+)\])(?::(\d{0,5}))?$/i;
const MAX_PORT = 65_535;

/** Returns the host in lower case without the port: '' if HTTP/1.0 omits it, undefined if invalid or repeated. */
export function hostOf({ rawHeaders, headers, httpVersion }: IncomingMessage): string | undefined {
  const value = headers.host;
  if (value === undefined) return httpVersion === '1.0' ? '' : undefined;
  // `headers` contains only the first of several `Host` headers.
  const isHostName = (text: string, at: number) => at % 2 === 0 && text.length === 4 && text.toLowerCase() === 'host';
  return rawHeaders.filter(isHostName).length > 1 ? undefined : parseHost(value);
}

/** Returns the host of a `Host` header in lower case, without the port, or undefined if the header is invalid. */
export function parseHost(value: string): string | undefined {
  const [, name, ipv6, port = ''] = HOST.exec(value) ?? [];
  if (Number(port) > MAX_PORT) return undefined;
  if (ipv6 !== undefined) return isIPv6(ipv6) ? new URL(`http://[${ipv6}]`).hostname : undefined;
  return name?.toLowerCase();
}

/** Whether `text` is a host without a port, in canonical form except for case. */
export function isHost(text: string): boolean {
  return parseHost(text) === text.toLowerCase() && !text.includes('*');
}

/** Whether `text` is an HTTP or HTTPS origin in the form that browsers send in the `Origin` header. */
export function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

/**
 * Returns a function that tells whether a listener on `address` accepts requests for a host. Prevents DNS rebinding, in
 * which an attacker's domain name resolves to the listener's address.
 *
 * @param allowedHosts hosts to accept besides loopback names and IP addresses; `*` accepts all hosts, and so does an
 *   empty list unless `address` is a loopback address
 * @param name configured host name of the listener, which is also accepted
 */
export function hostCheck(allowedHosts: readonly string[], address: string, name?: string): (host: string) => boolean {
  const isLocal = isLoopbackAddress(address);
  if (allowedHosts.includes('*') || (allowedHosts.length === 0 && !isLocal)) return () => true;
  const allowed = new Set([...allowedHosts, name?.toLowerCase()]);
  // A request without `Host` cannot come from a browser, and DNS rebinding works only in a browser.
  return (host) => host === '' || allowed.has(host) || isIPv4(host) || host.startsWith('[') || isLoopback(host);
}

/** Whether a listener on `address` can be reached only from its own machine. */
export function isLoopbackAddress(address: string): boolean {
  return isLoopback(isIPv6(address) ? `[${address}]` : address);
}

function isLoopback(host: string): boolean {
  return /^(.+\.)?localhost\.?$/.test(host) || (isIPv4(host) && host.startsWith('127.')) || host === '[::1]';
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Returns middleware that refuses cross-site writes, or all cross-site requests, except from `corsOrigins`. CORS alone
 * would not keep the server from processing a simple POST request.
 */
export function crossSite(options: { corsOrigins: readonly string[]; refused: 'writes' | 'all' }): Middleware[] {
  const origins = new Set(options.corsOrigins);
  const guard: Middleware = (ctx, next) => {
    const isWrite = !SAFE_METHODS.has(ctx.method);
    const isGuarded = isWrite || options.refused === 'all';
    if (isGuarded && isCrossSite(ctx, isWrite) && !origins.has(ctx.get('Origin')))
      throw new HttpError('crossSiteRequest');
    return next();
  };
  if (origins.size === 0) return [guard];
  const allow = cors({
    origin: (ctx) => (origins.has(ctx.get('Origin')) ? ctx.get('Origin') : ''),
    allowMethods: 'GET,HEAD,PUT,POST,DELETE',
    exposeHeaders: 'Location,Preference-Applied,Retry-After',
  });
  return [allow, guard];
}

/**
 * Whether a request comes from a page of another site, or, for a write, from another port or subdomain of the same site.
 * Falls back to `Origin`, because browsers send `Sec-Fetch-Site` over plain HTTP only to loopback addresses.
 */
function isCrossSite(ctx: Context, isWrite: boolean): boolean {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '') return site === 'cross-site' || (isWrite && site === 'same-site');
  const origin = ctx.get('Origin');
  return origin !== '' && (!URL.canParse(origin) || new URL(origin).host !== ctx.get('Host').toLowerCase());
}
