import { connect, type NatsConnection } from '@nats-io/transport-node';
import type { Log } from '../log.ts';

/** Interval of the pings that detect a lost connection. */
const PING_MS = 1_000;
/** Number of unanswered pings after which the connection is considered lost. */
const MAX_PINGS_OUT = 2;
/** Delay between reconnect attempts, to which up to 50 % of jitter is added. */
const RETRY_MS = 250;
const CONNECT_TIMEOUT_MS = 2_000;

/**
 * Connects to NATS. A lost connection is reestablished, without a limit on attempts.
 *
 * @param url comma-separated URLs of the servers
 * @throws {Error} if no server can be reached; the message is one line that says what to fix
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
    // Keep reconnecting even if the server temporarily rejects the credentials.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: RETRY_MS,
    reconnectJitter: RETRY_MS / 2,
    pingInterval: PING_MS,
    maxPingOut: MAX_PINGS_OUT,
  }).catch((error: Error) => {
    const where = servers.map((server) => new URL(server).host).join(', ');
    throw new Error(`cannot reach NATS at ${where}: ${error.message}: start it, or fix NATS_URL`, { cause: error });
  });
  void logStatus(connection, log);
  return connection;
}

async function logStatus(connection: NatsConnection, log: Log): Promise<void> {
  for await (const { type } of connection.status()) {
    if (type === 'disconnect') log.error('the connection to NATS is lost');
    else if (type === 'reconnect') log.info('connected to NATS again');
  }
}

function withoutCredentials(server: string): string {
  return server.slice(server.lastIndexOf('@') + 1);
}

/** Returns the credentials in a URL as options of the client library. A user name without a password is a token. */
function credentials(server: string): { user?: string; pass?: string; token?: string } {
  const { username, password } = new URL(server);
  if (username === '') return {};
  const user = decodeURIComponent(username);
  return password === '' ? { token: user } : { user, pass: decodeURIComponent(password) };
}
