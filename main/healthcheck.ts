/**
 * `node dist/main/healthcheck.js [/healthz|/readyz]` asks the process beside it how it is, for images without curl.
 * The exit code is 0 when the answer is 200; otherwise it is 1, with one line that says why.
 */
const PATIENCE_MS = 4000;
/** What listens on every address is asked on its own. */
const OWN: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

const [path = '/healthz'] = process.argv.slice(2);
const host = process.env.ADMIN_HOST || '127.0.0.1';
const port = process.env.ADMIN_PORT || '9464';
const address = OWN[host] ?? host;
const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}${path}`;

try {
  if (port === 'off') throw new Error('ADMIN_PORT is off: set a port, or start the container without its health check');
  const response = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
} catch (error) {
  const { message, cause } = error as Error;
  console.error(cause instanceof Error ? `${url}: ${cause.message}` : message);
  process.exitCode = 1;
}
