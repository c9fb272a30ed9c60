import type { Emitter } from './emitter.ts';
import { ClosedError } from './errors.ts';
import type { StreamMessage } from './tick-stream.ts';

/** The part of a `WebSocket` that the client uses. Both a browser's and that of the package `ws` have it. */
export interface WebSocketLike {
  /** 1 while open. */
  readonly readyState: number;
  send(text: string): void;
  close(): void;
  /** Only in the package `ws`, whose `close` waits up to 30 s for a server that does not answer. */
  terminate?(): void;
  // biome-ignore lint/suspicious/noExplicitAny: implementations differ in the types of their events.
  addEventListener(type: 'open' | 'message' | 'close' | 'error', listener: (event: any) => void): void;
}

export type WebSocketClass = new (url: string | URL, protocols: string[]) => WebSocketLike;

const HANDSHAKE_TIMEOUT_MS = 10_000;
const PING_INTERVAL_MS = 5_000;
/** Time without a pong after which the connection counts as lost. */
const PONG_TIMEOUT_MS = 10_000;

export interface ConnectionEvents {
  /** A connection was opened; received a frame; measured the milliseconds from a ping to its pong. */
  open: undefined;
  frame: string;
  roundTrip: number;
}

/** One connection to the price stream, which speaks `ticker.v2`. */
export class PriceConnection {
  /** Resolves when the connection has ended, was not opened in time, or has not answered a ping. */
  readonly ended: Promise<Error>;
  readonly #socket: WebSocketLike;
  #resolve: ((end: Error) => void) | undefined;
  #timer: ReturnType<typeof setInterval>;
  #pingedAt: number | undefined;

  constructor(
    Socket: WebSocketClass,
    url: URL,
    token: string,
    emitter: Pick<Emitter<ConnectionEvents>, 'emit'>,
    onMessage: (message: StreamMessage) => void,
  ) {
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    // Throws if the token cannot be a part of a subprotocol.
    this.#socket = new Socket(url, ['ticker.v2', `bearer.${token}`]);
    this.#timer = setTimeout(() => this.#end(1006, 'the handshake took too long'), HANDSHAKE_TIMEOUT_MS);
    this.#socket.addEventListener('open', () => {
      clearTimeout(this.#timer);
      this.#timer = setInterval(() => {
        if (this.#pingedAt === undefined) this.ping();
        else if (performance.now() - this.#pingedAt >= PONG_TIMEOUT_MS) this.#end(1006, 'no answer to a ping');
      }, PING_INTERVAL_MS);
      emitter.emit('open', undefined);
      this.ping();
    });
    this.#socket.addEventListener('message', ({ data }) => {
      if (this.#resolve === undefined) return;
      const message = messageOf(data);
      if (message === undefined) return this.#end(1006, 'invalid message');
      if (this.#pingedAt !== undefined && message.type === 'pong') {
        emitter.emit('roundTrip', performance.now() - this.#pingedAt);
        this.#pingedAt = undefined;
      }
      emitter.emit('frame', data);
      onMessage(message);
    });
    this.#socket.addEventListener('close', ({ code, reason }) => this.#end(code, reason));
    // The event `close` follows. Without a listener, the package `ws` throws the error.
    this.#socket.addEventListener('error', () => {});
  }

  /** Sends a ping, unless a pong is outstanding or the connection is not open. */
  ping(): void {
    if (this.#pingedAt !== undefined || this.#socket.readyState !== 1) return;
    this.#pingedAt = performance.now();
    this.send({ type: 'ping' });
  }

  /** Sends a message. The connection must have been opened. */
  send(message: object): void {
    this.#socket.send(JSON.stringify(message));
  }

  /** Closes the connection. @param reason value of `ended`, unless the connection has ended already */
  end(reason: Error): void {
    if (this.#resolve === undefined) return;
    this.#resolve(reason);
    this.#resolve = undefined;
    clearInterval(this.#timer);
    (this.#socket.terminate ?? this.#socket.close).call(this.#socket);
  }

  #end(code: number, reason: string): void {
    this.end(new ClosedError(code, reason));
  }
}

/** Returns the message of a frame, or undefined if the frame is not from the service. */
function messageOf(frame: string): StreamMessage | undefined {
  try {
    const message: StreamMessage = JSON.parse(frame);
    if (message.type === 'welcome') return message.symbols.every(Boolean) ? message : undefined;
    if (message.type === 'ticker') return message.data.every(Boolean) ? message : undefined;
    return message;
  } catch {
    return undefined;
  }
}
