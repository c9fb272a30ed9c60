import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ConnectionLimiter } from './connection-limiter.ts';
import { rateLimitKey } from './rate-limit-key.ts';

const MIN_TIMEOUT_FACTOR = 0.1;

/**
 * Limits the plain (non-WebSocket) connections per address, and shortens the client timeouts while more
 * than half of these connections are in use.
 *
 * @returns `release`, which stops counting a socket as a plain connection, and `timeoutFactor`, which returns the
 *   factor (at most 1) by which timeouts are currently multiplied
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
  const available = () => maxConnections - (open - limiter.taken);
  const timeoutFactor = () => {
    const free = available() > 0 ? 1 - limiter.taken / available() : 0;
    return Math.max(MIN_TIMEOUT_FACTOR, Math.min(1, 2 * free));
  };
  /** Also changes the timeouts of open connections, which Node checks against the server's current timeouts. */
  const adjust = () => {
    server.headersTimeout = Math.max(1, Math.round(times.headers * timeoutFactor()));
    server.requestTimeout = Math.max(1, Math.round(times.request * timeoutFactor()));
  };
  function onClose(this: Socket): void {
    limiter.release(this);
    open--;
    adjust();
  }
  server.on('connection', (socket: Socket) => {
    const address = rateLimitKey(socket.remoteAddress ?? '');
    if (limiter.refusal(address) !== undefined) {
      socket.destroy();
      return;
    }
    open++;
    limiter.hold(socket, address);
    socket.on('close', onClose);
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
