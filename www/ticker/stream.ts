import { ClosedError, ServiceError } from '../client/errors.ts';
import type { Status } from '../client/reconnection.ts';
import type { Tick } from '../client/tick-reader.ts';
import { type PriceHistory, TickerClient } from '../client/ticker-client.ts';
import { revoke, type Session } from '../shared/session.ts';
import { LONGEST_WINDOW } from './history.ts';

/** `since` is the `performance.now()` of the last price. `at` is the next attempt to connect (epoch milliseconds). */
export type StreamState =
  | { kind: 'signed-out'; reason: string | undefined }
  | { kind: 'connecting' | 'live' }
  | { kind: 'stale'; since: number }
  | { kind: 'reconnecting'; at: number };

export interface StreamListener {
  onState(state: StreamState): void;
  onOpen(): void;
  /** Called when a connection ends or cannot be opened, unless the page closed it. */
  onClose(code: number): void;
  onFrame(text: string): void;
  onTick(tick: Tick): void;
  /** Called with the prices of the last 15 minutes at the start, and after ticks were missed. */
  onHistory(history: PriceHistory): void;
  /** Called with the round-trip time of the latest ping, or with undefined when the connection ends. */
  onRoundTrip(milliseconds: number | undefined): void;
}

const SESSION_ENDED = 'Your session has ended. Enter the API key again to continue; the charts are kept.';
/** Close codes for a revoked and for an expired token. */
const SESSION_CODES: readonly number[] = [4001, 4003];
/** Close code that browsers report for a lost or refused connection. */
const LOST_CODE = 1006;

/** Prices of the session in which the user is signed in. */
export class Stream {
  readonly #listener: StreamListener;
  #session: Session | undefined;
  #client: TickerClient | undefined;
  #lastPricesAt = 0;
  #needsHistory = true;
  #isRequesting = false;

  constructor(listener: StreamListener) {
    this.#listener = listener;
  }

  get intervalMs(): number {
    return this.#client?.intervalMs ?? 1_000;
  }

  /** Milliseconds without a tick after which prices are stale. */
  get staleAfterMs(): number {
    return this.#client?.staleAfterMs ?? 3_000;
  }

  start(session: Session): void {
    this.#client?.close();
    const client = new TickerClient('/', { token: session.token });
    const { onOpen, onFrame, onTick, onRoundTrip, onClose } = this.#listener;
    client.on('status', (status) => this.#show(status));
    client.on('failure', (error) => this.stop(reasonOf(error)));
    client.on('open', onOpen);
    client.on('frame', onFrame);
    client.on('roundTrip', onRoundTrip);
    client.on('end', (error) => onClose(error instanceof ClosedError ? error.code : LOST_CODE));
    this.#session = session;
    this.#client = client;
    this.#needsHistory = true;
    client.on('tick', (tick) => {
      this.#lastPricesAt = performance.now();
      onTick(tick);
      if (tick.missed > 0) this.#needsHistory = true;
      if (this.#needsHistory && !this.#isRequesting) void this.#requestHistory(client);
    });
  }

  /** Closes the connection and discards the session. @param reason message for the user about the session's end */
  stop(reason?: string): void {
    this.#client?.close();
    this.#session = undefined;
    this.#client = undefined;
    this.#listener.onRoundTrip(undefined);
    this.#listener.onState({ kind: 'signed-out', reason });
  }

  signOut(): void {
    if (this.#session !== undefined) revoke(this.#session.token);
    this.stop();
  }

  /** Reconnects without waiting any longer. Called when the network may be back. */
  wake(): void {
    this.#client?.wake();
  }

  ping(): void {
    this.#client?.ping();
  }

  async #requestHistory(client: TickerClient): Promise<void> {
    this.#needsHistory = false;
    this.#isRequesting = true;
    try {
      this.#listener.onHistory(await client.history({ seconds: LONGEST_WINDOW }));
    } catch {
      this.#needsHistory = true;
    } finally {
      this.#isRequesting = false;
    }
  }

  #show(status: Status): void {
    const { onState, onRoundTrip } = this.#listener;
    switch (status.state) {
      case 'stopped':
        // The session has ended, and `stop` says why.
        return;
      case 'offline':
        onRoundTrip(undefined);
        onState({ kind: 'reconnecting', at: status.retryAt });
        return;
      case 'stale':
        onState({ kind: 'stale', since: this.#lastPricesAt });
        return;
      default:
        onState({ kind: status.state });
    }
  }
}

function reasonOf(error: Error): string {
  const isRefused = error instanceof ServiceError && error.status === 401;
  if (isRefused || (error instanceof ClosedError && SESSION_CODES.includes(error.code))) return SESSION_ENDED;
  if (error instanceof ClosedError) return `The service ended the connection with code ${error.code}.`;
  return `The service refused the connection: ${error.message}.`;
}
