import type { Duplex } from 'node:stream';
import { type ErrorName, HttpError } from './errors.ts';

export interface ConnectionBounds {
  /** Connections in total, those whose handshake is under way included. */
  maxConnections: number;
  maxConnectionsPerAddress: number;
}

/** Delay in seconds after which a refused client should try again. */
const RETRY_AFTER = '5';

/**
 * Bounds connections in total and by address. A socket releases its slot when it closes, which every socket does however
 * it ends, so the counts are exact. Past a bound a connection is refused.
 */
export class ConnectionLimiter {
  readonly #bounds: ConnectionBounds;
  readonly #byAddress = new Map<string, number>();
  /** Address of each socket that holds a slot. */
  readonly #holders = new Map<Duplex, string>();

  constructor(bounds: ConnectionBounds) {
    this.#bounds = bounds;
  }

  /** Slots in use. */
  get taken(): number {
    return this.#holders.size;
  }

  /** Addresses that hold a slot. */
  get addresses(): number {
    return this.#byAddress.size;
  }

  /** Error with which one more connection of `address` is refused; undefined if there is a free slot. */
  refusal(address: string): ErrorName | undefined {
    const own = this.#byAddress.get(address) ?? 0;
    if (own >= this.#bounds.maxConnectionsPerAddress) return 'tooManyConnectionsFromAddress';
    return this.taken >= this.#bounds.maxConnections ? 'tooManyConnections' : undefined;
  }

  /** @throws {HttpError} `too many connections from this address`, or `too many connections` */
  check(address: string): void {
    const error = this.refusal(address);
    if (error === undefined) return;
    const overload = error === 'tooManyConnections';
    throw new HttpError(error, { headers: { 'Retry-After': RETRY_AFTER }, overload });
  }

  /**
   * Acquires a slot until `socket` closes. A closed socket gets none.
   *
   * @throws {HttpError} as `check` does
   */
  acquire(socket: Duplex, address: string): void {
    if (socket.closed) return;
    this.check(address);
    this.hold(socket, address);
  }

  /** Acquires a slot that {@link refusal} has found free. */
  hold(socket: Duplex, address: string): void {
    this.#holders.set(socket, address);
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1);
    socket.once('close', () => this.release(socket));
  }

  /** Releases the slot of a socket before it closes. */
  release(socket: Duplex): void {
    const address = this.#holders.get(socket);
    if (address === undefined) return;
    this.#holders.delete(socket);
    const left = (this.#byAddress.get(address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }
}
