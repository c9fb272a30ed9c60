import { connect, type NatsConnection } from '@nats-io/transport-node';
import type { Log } from '../log.ts';

/** A server that does not answer a ping, twice in a row, is gone. */
const PING_MS = 1_000;
const MAX_PINGS_OUT = 2;
/** Between two tries to connect again, with up to half as much on top. */
const RETRY_MS = 250;
const CONNECT_TIMEOUT_MS = 2_000;

/**
 * Connects to NATS, and again whenever that is needed, for ever.
 *
 * @param url addresses of the servers, with commas between
 * @throws {Error} with one line that says what to mend, when none can be reached now
 */
export async function connectNats(url: string, log: Log): Promise<NatsConnection> {
  const servers = url.split(',');
  const connection = await connect({
    servers: servers.map((server) => server.replace(/^(nats|tls):\/\//, '')).map(withoutCredentials),
    ...credentials(servers[0] ?? ''),
    ...(servers.some((server) => server.startsWith('tls:')) && { tls: {} }),
    name: 'ticker-and-tasks',
    timeout: CONNECT_TIMEOUT_MS,
    maxReconnectAttempts: -1,
    // Nor is it given up when the server does not know the user for a while.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: RETRY_MS,
    reconnectJitter: RETRY_MS / 2,
    pingInterval: PING_MS,
    maxPingOut: MAX_PINGS_OUT,
    ignoreClusterUpdates: false,
  }).catch((error: Error) => {
    const where = servers.map((server) => new URL(server).host).join(', ');
    throw new Error(`cannot reach NATS at ${where}: ${error.message}: start it, or mend NATS_URL`, { cause: error });
  });
  void tell(connection, log);
  return connection;
}

async function tell(connection: NatsConnection, log: Log): Promise<void> {
  for await (const { type } of connection.status()) {
    if (type === 'disconnect') log.error('the connection to NATS is lost');
    else if (type === 'reconnect') log.info('connected to NATS again');
  }
}

function withoutCredentials(server: string): string {
  return server.slice(server.lastIndexOf('@') + 1);
}

/** The library takes them apart from the address. A name alone is a token. */
function credentials(server: string): { user?: string; pass?: string; token?: string } {
  const { username, password } = new URL(server);
  if (username === '') return {};
  const user = decodeURIComponent(username);
  return password === '' ? { token: user } : { user, pass: decodeURIComponent(password) };
}
