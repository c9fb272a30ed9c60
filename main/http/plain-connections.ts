import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ConnectionLimiter } from './connection-limiter.ts';
import { rateLimitKey } from './rate-limit-key.ts';

/** Lower bound on {@link PlainConnections.timeoutFactor}, reached when 5 % of the available connections are free. */
const MIN_TIMEOUT_FACTOR = 0.1;

/**
 * Limits the plain (non-WebSocket) connections of one address to a fraction of all plain ones, open or free, and shortens
 * the timeouts for headers and bodies when few are free. A WebSocket's connection counts as plain until `release` is called.
 */
export class PlainConnections {
  readonly #server: Server;
  readonly #times: { headers: number; request: number };
  readonly #maxConnections: number;
  readonly #limiter: ConnectionLimiter;
  /** Number of open connections, including WebSockets. */
  #open = 0;

  constructor(
    server: Server,
    times: { headers: number; request: number },
    { maxConnections = Number.POSITIVE_INFINITY, addressShare = 1 }: { maxConnections?: number; addressShare?: number },
  ) {
    const perAddress = () => Math.ceil(addressShare * this.#available);
    this.#server = server;
    this.#times = times;
    this.#maxConnections = maxConnections;
    this.#limiter = new ConnectionLimiter({
      maxConnections,
      get maxConnectionsPerAddress() {
        return perAddress();
      },
    });
    server.on('connection', (socket: Socket) => this.#accept(socket));
  }

  /** Factor for client timeouts: twice the free fraction of the available connections, at most 1. */
  get timeoutFactor(): number {
    const free = this.#available > 0 ? 1 - this.#limiter.taken / this.#available : 0;
    return Math.max(MIN_TIMEOUT_FACTOR, Math.min(1, 2 * free));
  }

  /** Number of connections, open or still free, that are not used by WebSockets. */
  get #available(): number {
    return this.#maxConnections - (this.#open - this.#limiter.taken);
  }

  readonly release = (socket: Duplex): void => {
    this.#limiter.release(socket);
    this.#adjust();
  };

  #accept(socket: Socket): void {
    const address = rateLimitKey(socket.remoteAddress ?? '');
    if (this.#limiter.refusal(address) !== undefined) {
      socket.destroy();
      return;
    }
    this.#open++;
    this.#limiter.hold(socket, address);
    socket.once('close', () => {
      this.#open--;
      this.#adjust();
    });
    this.#adjust();
  }

  /** Sets the server's timeouts to the configured ones times {@link timeoutFactor}. Node reads them at each check. */
  #adjust(): void {
    const { timeoutFactor } = this;
    this.#server.headersTimeout = Math.max(1, Math.round(this.#times.headers * timeoutFactor));
    this.#server.requestTimeout = Math.max(1, Math.round(this.#times.request * timeoutFactor));
  }
}
