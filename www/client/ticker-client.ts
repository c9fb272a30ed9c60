import { linkedTo } from './abort.ts';
import { Emitter } from './emitter.ts';
import { ClosedError, ServiceError } from './errors.ts';
import { type Abortable, type ClientOptions, HttpClient } from './http-client.ts';
import { PriceConnection, type WebSocketClass } from './price-connection.ts';
import { Reconnection, type Status } from './reconnection.ts';
import { TickInterval } from './tick-interval.ts';

/** `timestamp` is in Unix seconds. */
export interface Price {
  symbol: string;
  price: number;
  timestamp: number;
}

/** Response of `GET /prices/history`. All arrays have the same length. */
export interface PriceHistory {
  interval_ms: number;
  timestamps: number[];
  prices: Record<string, number[]>;
}

/** Close codes for a revoked and for an expired token. */
const TOKEN_CLOSE_CODES: readonly number[] = [4001, 4003];

export interface TickerOptions extends ClientOptions {
  /** Needed if there is no global `WebSocket`, as in Node before version 22. */
  WebSocket?: WebSocketClass | undefined;
}

export interface TickerEvents {
  status: Status;
  prices: Price[];
  /** The service refuses the client for good. */
  failure: Error;
  /** A connection was opened; ended; received a frame; measured the milliseconds from a ping to its pong. */
  open: undefined;
  end: Error;
  frame: string;
  roundTrip: number;
}

/** Client of the ticker. Is connected while somebody reads or listens to prices, and reconnects until `close`. */
export class TickerClient {
  readonly #http: HttpClient;
  readonly #Socket: WebSocketClass;
  readonly #reconnection = new Reconnection({
    connect: (signal) => this.#connect(signal),
    onStatus: (status) => this.#emitter.emit('status', status),
    onStop: (error) => this.#emitter.emit('failure', error),
  });
  readonly #emitter = new Emitter<TickerEvents>(() => this.#keep());
  /** Interval of the ticks, learnt from their arrival and from the history. */
  readonly interval = new TickInterval();
  #connection: PriceConnection | undefined;
  #newest: Price[] | undefined;

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
  async *prices({ symbols, signal }: Abortable & { symbols?: readonly string[] } = {}): AsyncGenerator<Price[], void> {
    let newest = this.#newest;
    let failure: Error | undefined;
    let wake = () => {};
    const over = linkedTo(signal, this.#http.closed);
    over.signal.addEventListener('abort', () => wake());
    const removeFailure = this.on('failure', (error) => {
      failure = error;
      wake();
    });
    const removePrices = this.on('prices', (prices) => {
      newest = prices;
      wake();
    });
    try {
      for (;;) {
        signal?.throwIfAborted();
        if (failure !== undefined) throw failure;
        if (this.#http.closed.aborted) return;
        const prices = newest;
        newest = undefined;
        if (prices !== undefined) {
          yield choose(prices, symbols);
          continue;
        }
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      removePrices();
      removeFailure();
      over.abort();
    }
  }

  /** Requests the ticks of the last `seconds`, up to 900. @throws {ServiceError | UnreachableError} */
  async history({ seconds, signal }: Abortable & { seconds?: number } = {}): Promise<PriceHistory> {
    const history = await this.#http.request<PriceHistory>('prices/history', { query: { seconds }, signal });
    this.interval.statedMs = history.interval_ms;
    return history;
  }

  /** Revokes the token, which closes all of its connections. */
  async revoke(): Promise<void> {
    await this.#http.request('auth/token', { method: 'DELETE' });
  }

  /** Sends a ping on an open connection, whose pong is reported by the event `roundTrip`. */
  ping(): void {
    this.#connection?.ping();
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

  #keep(): void {
    if (!this.#emitter.hasListeners('prices')) this.#reconnection.stop('nobody reads prices');
    else if (!this.#http.closed.aborted) this.#reconnection.start();
  }

  async #connect(signal: AbortSignal): Promise<Error> {
    const token = (await this.#http.credentials.token()) ?? '';
    signal.throwIfAborted();
    const url = this.#http.urlOf('ws/ticker');
    url.protocol = url.protocol.replace('http', 'ws');
    let isOpen = false;
    let staleTimer: ReturnType<typeof setTimeout> | undefined;
    const expectPrices = () => {
      clearTimeout(staleTimer);
      staleTimer = setTimeout(() => this.#reconnection.enter({ state: 'stale' }), this.interval.staleAfterMs);
    };
    const connection = new PriceConnection(this.#Socket, url, token, {
      onOpen: () => {
        isOpen = true;
        this.interval.restart();
        this.#emitter.emit('open', undefined);
        expectPrices();
      },
      onFrame: (text) => {
        this.#emitter.emit('frame', text);
        const message = JSON.parse(text);
        if (message.type !== 'ticker') return;
        this.interval.note(performance.now());
        expectPrices();
        this.#newest = message.data;
        this.#reconnection.enter({ state: 'live' });
        this.#emitter.emit('prices', message.data);
      },
      onRoundTrip: (milliseconds) => this.#emitter.emit('roundTrip', milliseconds),
    });
    this.#connection = connection;
    const stopped = new Promise<Error>((resolve) => signal.addEventListener('abort', () => resolve(signal.reason)));
    const end = await Promise.race([connection.ended, stopped]);
    connection.close();
    clearTimeout(staleTimer);
    this.#connection = undefined;
    this.#newest = undefined;
    if (signal.aborted) return end;
    this.#emitter.emit('end', end);
    return isOpen ? this.#afterClose(end, token) : this.#afterRefusal(end, signal);
  }

  /** Returns why the connection ended. After the end of a token, another connection may last if there is another token. */
  async #afterClose(end: Error, token: string): Promise<Error> {
    if (!(end instanceof ClosedError) || !TOKEN_CLOSE_CODES.includes(end.code)) return end;
    return new ClosedError(end.code, end.message, await this.#http.credentials.refuse(token));
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

function choose(prices: Price[], symbols?: readonly string[]): Price[] {
  if (symbols === undefined) return prices;
  const names = prices.map(({ symbol }) => symbol);
  const unknown = symbols.find((symbol) => !names.includes(symbol));
  if (unknown !== undefined) throw new RangeError(`unknown symbol ${unknown}: the service has ${names.join(', ')}`);
  return prices.filter(({ symbol }) => symbols.includes(symbol));
}
