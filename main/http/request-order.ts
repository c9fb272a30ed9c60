import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Maximum number of outstanding responses of a connection. A client that pipelines more requests is disconnected. */
const MAX_OUTSTANDING = 100;

/**
 * Handles the pipelined requests of each connection one after another. Node would start all at once, and when the
 * connection closes, it would not emit `close` on the queued responses, so their resources would never be released.
 */
export class RequestOrder {
  /** Outstanding responses of each connection, in order. Only the first one's request is being handled. */
  readonly #outstanding = new Map<Duplex, ServerResponse[]>();
  readonly #onAnswered: () => void;

  /** @param onAnswered called after each response */
  constructor(onAnswered: () => void) {
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
    if (outstanding.push(response) > MAX_OUTSTANDING) socket.destroy();
    else if (previous === undefined) answer(request, response);
    else {
      previous.once('close', () => {
        // In its own event loop turn, so that a hundred requests in one packet delay no other connection.
        setImmediate(() => {
          // A response has no socket if the previous response was the connection's last.
          if (response.socket !== null) answer(request, response);
        });
      });
    }
    response.once('close', () => {
      outstanding.shift();
      this.#onAnswered();
    });
  }

  #add(socket: Duplex): ServerResponse[] {
    const outstanding: ServerResponse[] = [];
    this.#outstanding.set(socket, outstanding);
    socket.once('close', () => this.#outstanding.delete(socket));
    return outstanding;
  }
}
