import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TurnLimit } from './turn-limit.ts';

/** Maximum number of requests that a listener starts in one event loop turn. One request takes about 0.1 ms. */
export const REQUESTS_PER_TURN = 32;

/** Maximum number of unfinished responses on one connection. A further request closes the connection. */
const MAX_OUTSTANDING = 100;

/**
 * Handles the requests of each connection one at a time. If Node handled several, Node would not emit `close` on queued
 * responses when the connection closes, and their resources would leak.
 */
export class RequestOrder {
  readonly #outstanding = new Map<Duplex, ServerResponse[]>();
  readonly #turns = new TurnLimit(REQUESTS_PER_TURN);
  readonly #onAnswered: (socket: Duplex) => void;

  constructor(onAnswered: (socket: Duplex) => void) {
    this.#onAnswered = onAnswered;
  }

  /** Returns the unfinished responses of a connection, oldest first. */
  outstanding(socket: Duplex): readonly ServerResponse[] {
    return this.#outstanding.get(socket) ?? [];
  }

  /** Yields the newest unfinished response of each connection. */
  *last(): Generator<ServerResponse> {
    for (const responses of this.#outstanding.values()) {
      const last = responses.at(-1);
      if (last !== undefined) yield last;
    }
  }

  enqueue(request: IncomingMessage, response: ServerResponse, answer: RequestListener): void {
    const { socket } = request;
    if (socket.writableEnded) {
      // An error response has ended the connection, but the client keeps sending.
      socket.destroy();
      return;
    }
    const outstanding = this.#outstanding.get(socket) ?? this.#add(socket);
    const previous = outstanding.at(-1);
    outstanding.push(response);
    if (outstanding.length > MAX_OUTSTANDING) {
      socket.destroy();
      return;
    }
    const begin = () => {
      // A response loses its socket if the previous response closed the connection.
      if (response.socket !== null && !response.closed) answer(request, response);
    };
    if (previous !== undefined) previous.once('close', () => this.#turns.defer(1, begin));
    else if (this.#turns.take(1)) answer(request, response);
    else this.#turns.defer(1, begin);
    response.once('close', () => {
      outstanding.shift();
      this.#onAnswered(socket);
    });
  }

  #add(socket: Duplex): ServerResponse[] {
    const outstanding: ServerResponse[] = [];
    this.#outstanding.set(socket, outstanding);
    socket.once('close', () => this.#outstanding.delete(socket));
    return outstanding;
  }
}
