import { ClosedError } from './errors.ts';

/** The part of a `WebSocket` that the client uses. Both a browser's and that of the package `ws` have it. */
export interface WebSocketLike {
  readonly readyState: number;
  send(text: string): void;
  close(): void;
  /** Only in the package `ws`, whose `close` waits up to 30 s for a server that does not answer. */
  terminate?(): void;
  // biome-ignore lint/suspicious/noExplicitAny: implementations differ in the types of their events.
  addEventListener(type: 'open' | 'message' | 'close' | 'error', listener: (event: any) => void): void;
}

export type WebSocketClass = new (url: string | URL, protocols: string[]) => WebSocketLike;

const OPEN = 1;
const HANDSHAKE_TIMEOUT_MS = 10_000;
const PING_INTERVAL_MS = 5_000;
/** Time without a pong after which the connection counts as lost. */
const PONG_TIMEOUT_MS = 10_000;

interface Listener {
  onOpen(): void;
  onFrame(text: string): void;
  /** Called with the milliseconds between a ping and its pong. */
  onRoundTrip(milliseconds: number): void;
}

/** One connection to the price stream, which speaks `ticker.v1`. */
export class PriceConnection {
  /** Resolves when the connection has ended, was not opened in time, or has not answered a ping. */
  readonly ended: Promise<ClosedError>;
  readonly #socket: WebSocketLike;
  readonly #listener: Listener;
  readonly #end: (code: number, reason: string) => void;
  #timer: ReturnType<typeof setInterval>;
  #isOver = false;
  #pingedAt: number | undefined;

  constructor(Socket: WebSocketClass, url: URL, token: string, listener: Listener) {
    this.#listener = listener;
    let end: (error: ClosedError) => void = () => {};
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#end = (code, reason) => {
      this.close();
      end(new ClosedError(code, reason));
    };
    this.#timer = setTimeout(() => this.#end(1006, 'the handshake took too long'), HANDSHAKE_TIMEOUT_MS);
    this.#socket = new Socket(url, ['ticker.v1', `bearer.${token}`]);
    this.#socket.addEventListener('open', () => this.#open());
    this.#socket.addEventListener('message', ({ data }) => this.#receive(String(data)));
    this.#socket.addEventListener('close', ({ code, reason }) => this.#end(code, reason));
    // The event `close` follows. Without a listener, the package `ws` throws the error.
    this.#socket.addEventListener('error', () => {});
  }

  /** Sends a ping, unless a pong is outstanding or the connection is not open. */
  ping(): void {
    if (this.#pingedAt !== undefined || this.#socket.readyState !== OPEN) return;
    this.#pingedAt = performance.now();
    this.#socket.send('{"type":"ping"}');
  }

  /** Closes the connection. `ended` need not resolve. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#timer);
    if (this.#socket.terminate === undefined) this.#socket.close();
    else this.#socket.terminate();
  }

  #open(): void {
    if (this.#isOver) return;
    clearTimeout(this.#timer);
    this.#timer = setInterval(() => {
      if (this.#pingedAt === undefined) this.ping();
      else if (performance.now() - this.#pingedAt >= PONG_TIMEOUT_MS) this.#end(1006, 'no answer to a ping');
    }, PING_INTERVAL_MS);
    this.#listener.onOpen();
    this.ping();
  }

  #receive(text: string): void {
    if (this.#isOver) return;
    if (this.#pingedAt !== undefined && text === '{"type":"pong"}') {
      const milliseconds = performance.now() - this.#pingedAt;
      this.#pingedAt = undefined;
      this.#listener.onRoundTrip(milliseconds);
    }
    this.#listener.onFrame(text);
  }
}
