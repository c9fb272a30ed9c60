import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ConnectionLimiter } from './connection-limiter.ts';
import { rateLimitKey } from './rate-limit-key.ts';

/** Minimum factor for client timeouts, reached when only 5 % of the available connections are free. */
const MIN_TIMEOUT_FACTOR = 0.1;

/**
 * Limits the plain (non-WebSocket) connections per address. Also shortens the client timeouts while fewer than half of
 * the available connections are free. A WebSocket counts as a plain connection until `release` is called.
 *
 * @param times the timeouts in milliseconds, before they are shortened
 * @returns `release`, and `timeoutFactor`, which returns the current factor for client timeouts (at most 1)
 */
export function limitPlainConnections(
  server: Server,
  times: { headers: number; request: number },
  { maxConnections = Number.POSITIVE_INFINITY, addressShare = 1 }: { maxConnections?: number; addressShare?: number },
) {
  /** Number of open connections, including WebSockets. */
  let open = 0;
  const limiter = new ConnectionLimiter({
    maxConnections,
    get maxConnectionsPerAddress() {
      return Math.ceil(addressShare * available());
    },
  });
  /** Returns the number of connections, open or free, that WebSockets do not use. */
  const available = () => maxConnections - (open - limiter.taken);
  /** Returns twice the fraction of free connections, but at least {@link MIN_TIMEOUT_FACTOR} and at most 1. */
  const timeoutFactor = () => {
    const free = available() > 0 ? 1 - limiter.taken / available() : 0;
    return Math.max(MIN_TIMEOUT_FACTOR, Math.min(1, 2 * free));
  };
  /** Updates the server's timeouts. Node reads the timeouts at each check, so open connections are affected too. */
  const adjust = () => {
    server.headersTimeout = Math.max(1, Math.round(times.headers * timeoutFactor()));
    server.requestTimeout = Math.max(1, Math.round(times.request * timeoutFactor()));
  };
  server.on('connection', (socket: Socket) => {
    const address = rateLimitKey(socket.remoteAddress ?? '');
    if (limiter.refusal(address) !== undefined) {
      socket.destroy();
      return;
    }
    open++;
    limiter.hold(socket, address);
    socket.once('close', () => {
      open--;
      adjust();
    });
    adjust();
  });
  return {
    timeoutFactor,
    release(socket: Duplex): void {
      limiter.release(socket);
      adjust();
    },
  };
}
