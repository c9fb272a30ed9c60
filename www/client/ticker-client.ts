import { Emitter } from './emitter.ts';
import { ClosedError, ServiceError, TOKEN_CLOSE_CODES } from './errors.ts';
import { type Abortable, type ClientOptions, HttpClient } from './http-client.ts';
import { type ConnectionEvents, PriceConnection, type WebSocketClass } from './price-connection.ts';
import { Reconnection, type Status } from './reconnection.ts';
import { type Price, type Tick, TickReader, TickStream } from './tick-stream.ts';
import { linkedTo } from './waiting.ts';

/** Response of `GET /prices/history`. All arrays have the same length. */
export interface PriceHistory {
  interval_ms: number;
  timestamps: number[];
  prices: Record<string, number[]>;
}

export interface TickerOptions extends ClientOptions {
  /** Needed if there is no global `WebSocket`, as in Node before version 22. */
  WebSocket?: WebSocketClass | undefined;
}

export interface TickerEvents extends ConnectionEvents {
  status: Status;
  /** Every tick, with all prices. */
  tick: Tick;
  /** A connection has ended. */
  end: Error;
  /** The service refuses the client for good. */
  failure: Error;
}

type ReadOptions = Abortable & { symbols?: readonly string[] };

/** Client of the ticker. Is connected while somebody reads or listens to ticks, and reconnects until `close`. */
export class TickerClient {
  readonly #http: HttpClient;
  readonly #Socket: WebSocketClass;
  readonly #reconnection = new Reconnection({
    connect: (signal) => this.#connect(signal),
    onStatus: (status) => this.#emitter.emit('status', status),
    onStop: (error) => this.#emitter.emit('failure', error),
  });
  readonly #emitter = new Emitter<TickerEvents>(() => this.#keep());
  readonly #stream = new TickStream();
  /** Passes the ticks to the listeners. */
  readonly #listening = new TickReader(undefined, () => {
    const tick = this.#listening.take();
    if (tick !== undefined) this.#emitter.emit('tick', tick);
  });

  /** @throws {TypeError} if there is no `WebSocket` */
  constructor(url: string | URL, { WebSocket = globalThis.WebSocket, ...options }: TickerOptions = {}) {
    if (WebSocket === undefined) {
      throw new TypeError('this runtime has no WebSocket: pass that of the package ws, { WebSocket }');
    }
    this.#Socket = WebSocket;
    this.#http = new HttpClient(url, options);
  }

  get status(): Status {
    return this.#reconnection.status;
  }

  /** Interval of the ticks, one second until the service has told it. */
  get intervalMs(): number {
    return this.#stream.intervalMs;
  }

  /** Milliseconds without a tick after which prices are stale: three intervals, but at least three seconds. */
  get staleAfterMs(): number {
    return Math.max(3_000, 3 * this.intervalMs);
  }

  /** Adds a listener. @returns a function that removes the listener */
  on<Name extends keyof TickerEvents>(name: Name, listener: (value: TickerEvents[Name]) => void): () => void {
    return this.#emitter.on(name, listener);
  }

  /**
   * Iterates over the prices. A slow reader gets the newest ones and misses those between. The iteration ends with
   * `close`.
   *
   * @param symbols all if absent
   * @throws {ServiceError | ClosedError} if the service refuses the client for good
   * @throws {RangeError} if the service does not have a symbol
   */
  async *prices(options: ReadOptions = {}): AsyncGenerator<Price[], void> {
    for await (const { prices } of this.#read(options, true)) yield prices;
  }

  /**
   * Iterates over the ticks, like `prices`, each with the number of ticks that the reader has missed before it. After a
   * reconnection, the ticks since the last one follow in order, as far as the service still has them.
   */
  ticks(options: ReadOptions = {}): AsyncGenerator<Tick, void> {
    return this.#read(options);
  }

  /** Requests the ticks of the last `seconds`, up to 86,400, one a minute if more than 900. @throws {ServiceError | UnreachableError} */
  async history({ seconds, signal }: Abortable & { seconds?: number } = {}): Promise<PriceHistory> {
    return this.#http.request('prices/history', { query: { seconds }, signal });
  }

  /** Revokes the token, which closes all of its connections. */
  async revoke(): Promise<void> {
    await this.#http.request('auth/token', { method: 'DELETE' });
  }

  /** Sends a ping on an open connection, whose pong is reported by the event `roundTrip`. */
  ping(): void {
    this.#stream.connection?.ping();
  }

  /** Connects without waiting any longer, or pings a connection. For a page that becomes visible, for example. */
  wake(): void {
    this.#reconnection.wake();
    this.ping();
  }

  /** Ends everything. The client cannot be used any more. */
  close(): void {
    this.#http.close();
    this.#reconnection.stop('closed');
  }

  async *#read({ symbols, signal }: ReadOptions, isNewest?: boolean): AsyncGenerator<Tick, void> {
    const reader = new TickReader(symbols);
    const { closed } = this.#http;
    const over = linkedTo(signal, closed);
    over.signal.addEventListener('abort', () => reader.wake());
    this.#stream.add(reader);
    const off = this.on('failure', (error) => over.abort(error));
    try {
      while (!closed.aborted) {
        over.signal.throwIfAborted();
        if (this.#stream.symbols.length > 0) reader.check(this.#stream.symbols);
        const tick = reader.take(isNewest);
        if (tick === undefined) await reader.wait();
        else yield tick;
      }
    } finally {
      this.#stream.readers.delete(reader);
      off();
      over.abort();
    }
  }

  #keep(): void {
    const { readers } = this.#stream;
    if (this.#emitter.hasListeners('tick')) readers.add(this.#listening);
    else readers.delete(this.#listening);
    this.#stream.chooseSoon();
    if (readers.size === 0) {
      this.#reconnection.stop('nobody reads prices');
      this.#stream.end();
    } else if (!this.#http.closed.aborted) this.#reconnection.start();
  }

  async #connect(signal: AbortSignal): Promise<Error> {
    const token = (await this.#http.credentials.token()) ?? '';
    signal.throwIfAborted();
    const url = this.#http.urlOf('ws/ticker');
    url.protocol = url.protocol.replace('http', 'ws');
    let staleTimer: ReturnType<typeof setTimeout> | undefined;
    const connection = new PriceConnection(this.#Socket, url, token, this.#emitter, (message) => {
      if (message.type === 'pong') return;
      if (message.type === 'ticker') this.#reconnection.enter({ state: 'live' });
      this.#stream.receive(message, connection);
      clearTimeout(staleTimer);
      staleTimer = setTimeout(() => this.#reconnection.enter({ state: 'stale' }), this.staleAfterMs);
    });
    const stop = () => connection.end(signal.reason);
    signal.addEventListener('abort', stop);
    const end = await connection.ended;
    signal.removeEventListener('abort', stop);
    clearTimeout(staleTimer);
    const isWelcome = this.#stream.symbols.length > 0;
    this.#stream.end();
    if (signal.aborted) return end;
    this.#emitter.emit('end', end);
    return isWelcome ? this.#afterClose(end, token) : this.#afterRefusal(end, signal);
  }

  /** Returns why the connection ended. After the end of a token, another connection may last if there is another token. */
  async #afterClose(end: Error, token: string): Promise<Error> {
    return end instanceof ClosedError && TOKEN_CLOSE_CODES.includes(end.code)
      ? new ClosedError(end.code, end.message, await this.#http.credentials.refuse(token))
      : end;
  }

  /**
   * Returns why the service has refused a connection. A `WebSocket` does not tell it, so the same request is sent without
   * the upgrade: 426 says that the token is valid, perhaps after it was renewed.
   */
  async #afterRefusal(end: Error, signal: AbortSignal): Promise<Error> {
    const refusal: unknown = await this.#http.request('ws/ticker', { giveUpMs: 0, signal }).catch((error) => error);
    return refusal instanceof ServiceError && refusal.status !== 426 ? refusal : end;
  }
}
