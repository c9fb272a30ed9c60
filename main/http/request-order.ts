import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TurnLimit } from './turn-limit.ts';

/**
 * Maximum number of requests that a listener starts to handle in one event loop turn. Each request takes about 0.1 ms,
 * and a thousand connections may send requests at the same moment.
 */
export const REQUESTS_PER_TURN = 32;

/** Maximum number of outstanding (unfinished) responses on a connection. A further request closes the connection. */
const MAX_OUTSTANDING = 100;

/**
 * Handles the requests of each connection one at a time. Otherwise Node could handle several at once. If the connection
 * then closed, Node would not emit `close` on the queued responses, and their resources would leak.
 */
export class RequestOrder {
  /** Outstanding (unfinished) responses of each connection, in order. Only the first request is being handled. */
  readonly #outstanding = new Map<Duplex, ServerResponse[]>();
  readonly #turns = new TurnLimit(REQUESTS_PER_TURN);
  readonly #onAnswered: (socket: Duplex) => void;

  /** @param onAnswered called with the connection's socket after each response */
  constructor(onAnswered: (socket: Duplex) => void) {
    this.#onAnswered = onAnswered;
  }

  /** Returns the outstanding (unfinished) responses of a connection, in order. */
  outstanding(socket: Duplex): readonly ServerResponse[] {
    return this.#outstanding.get(socket) ?? [];
  }

  /** Yields the last outstanding (unfinished) response of each connection that has any. */
  *last(): Generator<ServerResponse> {
    for (const responses of this.#outstanding.values()) {
      const last = responses.at(-1);
      if (last !== undefined) yield last;
    }
  }

  /** Calls `answer` once all earlier responses of the connection have been sent. */
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
      // Skips a response without a socket, because the previous response closed the connection.
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
