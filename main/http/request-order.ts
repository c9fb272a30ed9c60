import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { Turns } from './turns.ts';

/**
 * Most requests of a listener that begin in one turn of the event loop, because a thousand connections may send their requests
 * at the same moment. Each takes about 0.1 ms.
 */
export const REQUESTS_PER_TURN = 32;

/**
 * Handles the requests of each connection one after another. `RequestReader` holds pipelined requests back, except those that
 * follow a chunked body. Node would start these at once, and when the connection closes, it would not emit `close` on the queued
 * responses, so their resources would never be released.
 */
export class RequestOrder {
  /** Outstanding responses of each connection, in order. Only the first one's request is being handled. */
  readonly #outstanding = new Map<Duplex, ServerResponse[]>();
  readonly #turns = new Turns(REQUESTS_PER_TURN);
  readonly #onAnswered: (socket: Duplex) => void;

  /** @param onAnswered called after each response */
  constructor(onAnswered: (socket: Duplex) => void) {
    this.#onAnswered = onAnswered;
  }

  /** Outstanding responses of a connection, in order. */
  outstanding(socket: Duplex): readonly ServerResponse[] {
    return this.#outstanding.get(socket) ?? [];
  }

  /** The last outstanding response of each connection that has any. */
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
      // The client continues to send after an error response that closes the connection.
      socket.destroy();
      return;
    }
    const outstanding = this.#outstanding.get(socket) ?? this.#add(socket);
    const previous = outstanding.at(-1);
    outstanding.push(response);
    const begin = () => {
      // A response has no socket if the previous response was the connection's last.
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
