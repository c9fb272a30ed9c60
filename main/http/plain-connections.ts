import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { rateLimitKey } from './client-address.ts';
import { ConnectionLimiter } from './connection-limiter.ts';

/** Smallest share of their time that clients keep when no connection is free. */
const MIN_PATIENCE = 0.1;

/**
 * Bounds the plain connections of one address to a share of those that no WebSocket uses, and shortens the time for headers and bodies as connections run
 * short. One more connection of an address is closed at once. A WebSocket counts as plain until it is released.
 */
export class PlainConnections {
  readonly #server: Server;
  readonly #times: { headers: number; request: number };
  readonly #maxConnections: number;
  readonly #limiter: ConnectionLimiter;
  /** Open connections, WebSockets included. */
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

  /**
   * Share of their time that clients have: 1 while half of the connections that no WebSocket uses are free, then
   * proportionally less.
   */
  get patience(): number {
    const free = this.#available > 0 ? 1 - this.#limiter.taken / this.#available : 0;
    return Math.max(MIN_PATIENCE, Math.min(1, 2 * free));
  }

  /** Connections that no WebSocket uses, open ones included. */
  get #available(): number {
    return this.#maxConnections - (this.#open - this.#limiter.taken);
  }

  /** Stops counting a connection that has left HTTP. */
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

  /** Node compares open requests with these two at each check. */
  #adjust(): void {
    const { patience } = this;
    this.#server.headersTimeout = Math.max(1, Math.round(this.#times.headers * patience));
    this.#server.requestTimeout = Math.max(1, Math.round(this.#times.request * patience));
  }
}
