import type { Duplex } from 'node:stream';
import { HttpError } from '../http/errors.ts';

export interface ConnectionBounds {
  /** Connections in all, those whose handshake is under way included. */
  maxConnections: number;
  maxConnectionsPerAddress: number;
}

/** Seconds after which a refused client does well to try again. */
const RETRY_AFTER = '5';

/**
 * The places for WebSocket connections. A place belongs to a socket and comes back when the socket closes, the one
 * thing that every connection does however it ends; so the counts are exact, and bounded by the connections.
 */
export class ConnectionPlaces {
  readonly #bounds: ConnectionBounds;
  readonly #byAddress = new Map<string, number>();
  #taken = 0;

  constructor(bounds: ConnectionBounds) {
    this.#bounds = bounds;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Addresses that hold a place. */
  get addresses(): number {
    return this.#byAddress.size;
  }

  /**
   * Takes a place for `socket` until it closes; one that is closed already gets none, since it can never join.
   *
   * @throws {HttpError} `too many connections from this address`, or `too many connections`
   */
  take(socket: Duplex, address: string): void {
    if (socket.closed) return;
    const headers = { 'Retry-After': RETRY_AFTER };
    const own = this.#byAddress.get(address) ?? 0;
    if (own >= this.#bounds.maxConnectionsPerAddress) throw new HttpError('tooManyConnectionsFromAddress', { headers });
    if (this.#taken >= this.#bounds.maxConnections)
      throw new HttpError('tooManyConnections', { headers, overload: true });
    this.#taken++;
    this.#byAddress.set(address, own + 1);
    socket.once('close', () => this.#giveBack(address));
  }

  #giveBack(address: string): void {
    this.#taken--;
    const left = (this.#byAddress.get(address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }
}
