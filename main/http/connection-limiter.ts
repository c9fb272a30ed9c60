import type { Duplex } from 'node:stream';
import { type ErrorName, HttpError } from './errors.ts';

export interface ConnectionBounds {
  /** Includes unfinished WebSocket handshakes. */
  maxConnections: number;
  maxConnectionsPerAddress: number;
}

const RETRY_AFTER_SECONDS = '5';

/** Limits connections in total and per address. A socket holds at most one slot. */
export class ConnectionLimiter {
  readonly #bounds: ConnectionBounds;
  readonly #byAddress = new Map<string, number>();
  readonly #addressBySocket = new Map<Duplex, string>();
  /** Listener that all sockets share. */
  readonly #onClose: (this: Duplex) => void;

  constructor(bounds: ConnectionBounds) {
    this.#bounds = bounds;
    const release = (socket: Duplex) => this.release(socket);
    this.#onClose = function () {
      release(this);
    };
  }

  get taken(): number {
    return this.#addressBySocket.size;
  }

  get addresses(): number {
    return this.#byAddress.size;
  }

  /** Returns the error with which to refuse a connection from `address`, or undefined if no limit is reached. */
  refusal(address: string): ErrorName | undefined {
    const own = this.#byAddress.get(address) ?? 0;
    if (own >= this.#bounds.maxConnectionsPerAddress) return 'tooManyConnectionsFromAddress';
    return this.taken >= this.#bounds.maxConnections ? 'tooManyConnections' : undefined;
  }

  /** Checks that `address` may open another connection. @throws {HttpError} if a limit is reached */
  check(address: string): void {
    const error = this.refusal(address);
    if (error === undefined) return;
    const overload = error === 'tooManyConnections';
    throw new HttpError(error, { headers: { 'Retry-After': RETRY_AFTER_SECONDS }, overload });
  }

  /** Acquires a slot for `socket` until it closes, unless it is closed. @throws {HttpError} if a limit is reached */
  acquire(socket: Duplex, address: string): void {
    if (socket.closed) return;
    this.check(address);
    this.hold(socket, address);
    socket.on('close', this.#onClose);
  }

  /** Acquires a slot until {@link release}, without checking the limits. The caller must call {@link refusal} first. */
  hold(socket: Duplex, address: string): void {
    this.#addressBySocket.set(socket, address);
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1);
  }

  /** Releases the slot of a socket. Does nothing if the socket has no slot. */
  release(socket: Duplex): void {
    const address = this.#addressBySocket.get(socket);
    if (address === undefined) return;
    this.#addressBySocket.delete(socket);
    const left = (this.#byAddress.get(address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }
}
