import { backoff } from '../client/backoff.ts';
import type { TickInterval } from '../client/tick-interval.ts';
import { revoke, type Session } from '../shared/session.ts';
import { checkToken } from './token-check.ts';

/** `timestamp` is in Unix seconds. */
export interface Price {
  symbol: string;
  price: number;
  timestamp: number;
}

/** `since` is the `performance.now()` of the last price. `at` is the next attempt to connect (epoch milliseconds). */
export type StreamState =
  | { kind: 'signed-out'; reason: string | undefined }
  | { kind: 'connecting' }
  | { kind: 'live' }
  | { kind: 'stale'; since: number }
  | { kind: 'reconnecting'; at: number };

export interface StreamListener {
  onState(state: StreamState): void;
  onOpen(): void;
  /** Called when a connection ends or cannot be opened, unless the page closed it. */
  onClose(code: number): void;
  onFrame(text: string): void;
  onPrices(prices: Price[]): void;
  /** Called with the round-trip time of the latest ping, or with undefined when the connection ends. */
  onRoundTrip(milliseconds: number | undefined): void;
}

export const SESSION_ENDED = 'Your session has ended. Enter the API key again to continue; the charts are kept.';

const PING_INTERVAL_MS = 5_000;
/** Time without a pong after which the page reconnects. */
const PONG_TIMEOUT_MS = 10_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Connection duration after which the backoff is reset. */
const STABLE_AFTER_MS = 10_000;
/** Close codes for a revoked and for an expired token. */
const SESSION_CODES: ReadonlySet<number> = new Set([4001, 4003]);
/** Close codes after which the page does not reconnect, because the service would close a new connection as well. */
export const FINAL_CODES: ReadonlySet<number> = new Set([1002, 1007, 1008, 1009, 4001, 4003, 4029]);

/** WebSocket connection to the price stream, which reconnects until the session ends. */
export class Stream {
  readonly #listener: StreamListener;
  readonly #interval: TickInterval;
  #session: Session | undefined;
  #state: StreamState = { kind: 'signed-out', reason: undefined };
  #socket: WebSocket | undefined;
  #release = new AbortController();
  #retry: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #pingedAt: number | undefined;

  /** @param interval receives the arrival time of each tick, and determines when prices are stale */
  constructor(listener: StreamListener, interval: TickInterval) {
    this.#listener = listener;
    this.#interval = interval;
  }

  start(session: Session): void {
    this.#session = session;
    this.#failures = 0;
    this.#connect(session);
  }

  /** Closes the connection and discards the session. @param reason message for the user about the session's end */
  stop(reason?: string): void {
    this.#session = undefined;
    this.#drop();
    this.#enter({ kind: 'signed-out', reason });
  }

  signOut(): void {
    if (this.#session !== undefined) revoke(this.#session.token);
    this.stop();
  }

  /** Reconnects without waiting for the backoff, or pings a stale connection. Called when the network may be back. */
  wake(): void {
    if (this.#state.kind === 'reconnecting' && this.#session !== undefined) this.#connect(this.#session);
    else if (this.#state.kind === 'stale') this.ping();
  }

  /** Sends a ping, unless a pong is outstanding or the connection is not open. */
  ping(): void {
    if (this.#pingedAt !== undefined || this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#pingedAt = performance.now();
    this.#socket.send('{"type":"ping"}');
  }

  #connect(session: Session): void {
    this.#drop();
    if (Date.now() >= session.expiresAt) {
      this.stop(SESSION_ENDED);
      return;
    }
    this.#enter({ kind: 'connecting' });
    const url = new URL('/ws/ticker', location.href.replace(/^http/, 'ws'));
    const socket = new WebSocket(url, ['ticker.v1', `bearer.${session.token}`]);
    this.#socket = socket;
    const { signal } = this.#release;
    let openedAt: number | undefined;
    const lose = (code: number) => void this.#lost(session, openedAt, code);
    const slow = setTimeout(() => lose(1006), HANDSHAKE_TIMEOUT_MS);
    signal.addEventListener('abort', () => clearTimeout(slow));

    const opened = () => {
      openedAt = performance.now();
      this.#listener.onOpen();
      this.#interval.restart();
      clearTimeout(slow);
      this.#expectPrice();
      const timer = setInterval(() => {
        if (this.#pingedAt === undefined) this.ping();
        else if (performance.now() - this.#pingedAt > PONG_TIMEOUT_MS) lose(1006);
      }, PING_INTERVAL_MS);
      signal.addEventListener('abort', () => clearInterval(timer));
      this.ping();
    };
    socket.addEventListener('open', opened, { signal });
    socket.addEventListener('message', ({ data }) => this.#receive(data), { signal });
    socket.addEventListener('close', ({ code }) => lose(code), { signal });
  }

  #receive(text: string): void {
    this.#listener.onFrame(text);
    const message = JSON.parse(text);
    if (message.type === 'pong' && this.#pingedAt !== undefined) {
      this.#listener.onRoundTrip(performance.now() - this.#pingedAt);
      this.#pingedAt = undefined;
    } else if (message.type === 'ticker') {
      this.#interval.note(performance.now());
      this.#expectPrice();
      if (this.#state.kind !== 'live') this.#enter({ kind: 'live' });
      this.#listener.onPrices(message.data);
    }
  }

  #staleTimer: ReturnType<typeof setTimeout> | undefined;

  #expectPrice(): void {
    const since = performance.now();
    const check = () => {
      // `staleAfterMs` depends on the measured tick interval, which may have changed since the timer was started.
      const remaining = since + this.#interval.staleAfterMs - performance.now();
      if (remaining > 0) this.#staleTimer = setTimeout(check, remaining);
      else this.#enter({ kind: 'stale', since });
    };
    clearTimeout(this.#staleTimer);
    this.#staleTimer = setTimeout(check, this.#interval.staleAfterMs);
  }

  async #lost(session: Session, openedAt: number | undefined, code: number): Promise<void> {
    this.#drop();
    this.#listener.onClose(code);
    if (FINAL_CODES.has(code)) {
      this.stop(SESSION_CODES.has(code) ? SESSION_ENDED : `The service ended the connection with code ${code}.`);
      return;
    }
    if (openedAt !== undefined && performance.now() - openedAt >= STABLE_AFTER_MS) this.#failures = 0;
    const delay = backoff(this.#failures++);
    this.#enter({ kind: 'reconnecting', at: Date.now() + delay });
    this.#retry = setTimeout(() => this.#connect(session), delay);
    // After a handshake that was refused because of the token, a retry cannot succeed.
    if (openedAt !== undefined || (await checkToken(session.token)) !== 'refused') return;
    if (this.#session === session) this.stop(SESSION_ENDED);
  }

  #drop(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#staleTimer);
    this.#release.abort();
    this.#release = new AbortController();
    this.#socket?.close();
    this.#socket = undefined;
    this.#pingedAt = undefined;
    this.#listener.onRoundTrip(undefined);
  }

  #enter(state: StreamState): void {
    this.#state = state;
    this.#listener.onState(state);
  }
}
