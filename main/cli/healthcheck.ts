/** `node dist/main healthcheck [/healthz|/readyz]`: health check for container images without curl. */
import { parseArgs } from 'node:util';
import { runCommand } from './command.ts';

const USAGE = `ticker-and-tasks healthcheck [/healthz|/readyz]

Requests /healthz (default) or /readyz of the services at ADMIN_HOST and ADMIN_PORT. Fails unless they answer that all is well.
`;

const REQUEST_TIMEOUT_MS = 4000;
/** Addresses to connect to if the admin listener is bound to a wildcard address. */
const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

await runCommand(USAGE, async (args) => {
  const [path = '/healthz'] = parseArgs({ args, allowPositionals: true }).positionals;
  const port = process.env.ADMIN_PORT || '9464';
  if (port === 'off') throw new Error('ADMIN_PORT is off: set a port, or start the container without its health check');
  const host = process.env.ADMIN_HOST || '127.0.0.1';
  const address = LOOPBACK[host] ?? host;
  const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}${path}`;
  const response = await fetch(url, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) }).catch((error: Error) => {
    throw new Error(`${url}: ${error.cause instanceof Error ? error.cause.message : error.message}`);
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${(await response.text()).trimEnd()}`);
});
