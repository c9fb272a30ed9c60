import type { Duplex } from 'node:stream';
import { type ErrorName, HttpError } from './errors.ts';

export interface ConnectionBounds {
  /** Maximum total number of connections, including unfinished WebSocket handshakes. */
  maxConnections: number;
  maxConnectionsPerAddress: number;
}

/** Value of `Retry-After` for refused clients, in seconds. */
const RETRY_AFTER = '5';

/** Limits connections in total and per address. A socket holds a slot until it closes or {@link release} is called. */
export class ConnectionLimiter {
  readonly #bounds: ConnectionBounds;
  readonly #byAddress = new Map<string, number>();
  /** Client address of each socket that holds a slot. */
  readonly #holders = new Map<Duplex, string>();

  constructor(bounds: ConnectionBounds) {
    this.#bounds = bounds;
  }

  get taken(): number {
    return this.#holders.size;
  }

  get addresses(): number {
    return this.#byAddress.size;
  }

  /** Returns the error with which to refuse a new connection from `address`, or undefined if a slot is free. */
  refusal(address: string): ErrorName | undefined {
    const own = this.#byAddress.get(address) ?? 0;
    if (own >= this.#bounds.maxConnectionsPerAddress) return 'tooManyConnectionsFromAddress';
    return this.taken >= this.#bounds.maxConnections ? 'tooManyConnections' : undefined;
  }

  /**
   * Checks that a new connection from `address` is allowed.
   *
   * @throws {HttpError} `too many connections from this address` or `too many connections`
   */
  check(address: string): void {
    const error = this.refusal(address);
    if (error === undefined) return;
    const overload = error === 'tooManyConnections';
    throw new HttpError(error, { headers: { 'Retry-After': RETRY_AFTER }, overload });
  }

  /**
   * Acquires a slot for `socket` until it closes. Does nothing if the socket is already closed.
   *
   * @throws {HttpError} the same errors as {@link check}
   */
  acquire(socket: Duplex, address: string): void {
    if (socket.closed) return;
    this.check(address);
    this.hold(socket, address);
  }

  /** Acquires a slot without checking the limits. The caller must call {@link refusal} first. */
  hold(socket: Duplex, address: string): void {
    this.#holders.set(socket, address);
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1);
    socket.once('close', () => this.release(socket));
  }

  /** Releases the socket's slot, if it has one. Called automatically when the socket closes. */
  release(socket: Duplex): void {
    const address = this.#holders.get(socket);
    if (address === undefined) return;
    this.#holders.delete(socket);
    const left = (this.#byAddress.get(address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }
}
