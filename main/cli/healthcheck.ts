/** `node dist/main healthcheck [/healthz|/readyz]`: health check for container images without curl. */

const REQUEST_TIMEOUT_MS = 4000;
/** Addresses to connect to if the admin listener is bound to a wildcard address. */
const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

const [path = '/healthz'] = process.argv.slice(2);
const host = process.env.ADMIN_HOST || '127.0.0.1';
const port = process.env.ADMIN_PORT || '9464';
const address = LOOPBACK[host] ?? host;
const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}${path}`;

try {
  if (port === 'off') throw new Error('ADMIN_PORT is off: set a port, or start the container without its health check');
  const response = await fetch(url, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${(await response.text()).trimEnd()}`);
} catch (error) {
  const { message, cause } = error as Error;
  console.error(cause instanceof Error ? `${url}: ${cause.message}` : message);
  process.exitCode = 1;
}
