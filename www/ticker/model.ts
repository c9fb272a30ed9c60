import { batch, signal } from '@preact/signals';
import { ClosedError, ServiceError, TOKEN_CLOSE_CODES } from '../client/errors.ts';
import type { Status } from '../client/reconnection.ts';
import type { Price, Tick } from '../client/tick-stream.ts';
import { TickerClient } from '../client/ticker-client.ts';
import { revoke, type Session } from '../shared/sign-in.ts';
import { Diagnostics } from './diagnostics.ts';
import { DAY, RECENT } from './history.ts';
import { Quote } from './quote.ts';

const SESSION_ENDED = 'Your session has ended. Enter the API key again to continue; the charts are kept.';
const IDLE_DRAW_MS = 1_000;
const CLOCK_MS = 500;

/** Prices and connection of the session in which the user is signed in. */
class Model {
  /** State of the connection. When it is `stopped` for the user to know, `reason` says why. */
  readonly connection = signal<Status>({ state: 'stopped', reason: '' });
  readonly session = signal<Session>();
  /** Milliseconds from the latest ping to its pong. Undefined without a connection. */
  readonly roundTrip = signal<number>();
  readonly quotes = signal<readonly Quote[]>([]);
  readonly isPaused = signal(false);
  /**
   * Newest drawing, another object each time, which views that show quotes read. `end` is the Unix time at which the
   * charts end, by the service's clock, 0 before the first price.
   */
  readonly drawn = signal({ end: 0 });
  /** Number of received ticks, including ticks that are not drawn while the page is hidden or paused. */
  readonly ticks = signal(0);
  /** Milliseconds since the epoch, twice a second. */
  readonly now = signal(Date.now());
  readonly diagnostics = new Diagnostics();
  client: TickerClient | undefined;
  #quotes: ReadonlyMap<string, Quote> = new Map();
  #arrivedAt = 0;
  /** Lengths of the histories that the page shows, in seconds. */
  readonly #lengths = new Set([RECENT]);
  #needsHistory = true;
  #isRequesting = false;
  #frame: number | undefined;
  /** Returns the minimum seconds between two prices that are shown as a gap. */
  readonly #leastGap = () => (this.client?.staleAfterMs ?? 3_000) / 1_000;

  get isLive(): boolean {
    return this.connection.value.state === 'live' && !this.isPaused.value;
  }

  get intervalMs(): number {
    return this.client?.intervalMs ?? 1_000;
  }

  /** Measurements of the connection, which change with the clock. */
  get readings() {
    this.now.value;
    return this.diagnostics.readings(performance.now(), this.intervalMs);
  }

  start(session: Session): void {
    this.client?.close();
    const client = new TickerClient('/', { token: session.token });
    const { diagnostics } = this;
    this.session.value = session;
    this.client = client;
    this.#needsHistory = true;
    client.on('status', (status) => {
      this.connection.value = status;
      if (status.state === 'offline') this.roundTrip.value = undefined;
    });
    client.on('failure', (error) => this.#stop(reasonOf(error)));
    client.on('open', () => diagnostics.opened(performance.now()));
    client.on('frame', (text) => diagnostics.frameReceived(text, Date.now()));
    client.on('roundTrip', (milliseconds) => {
      this.roundTrip.value = milliseconds;
      diagnostics.pongReceived(milliseconds);
    });
    client.on('end', (error) => diagnostics.closed(error, Date.now()));
    client.on('tick', (tick) => {
      diagnostics.tickReceived(tick.missed, performance.now(), client.intervalMs);
      this.#take(tick);
      if (tick.missed > 0) this.#needsHistory = true;
      void this.#requestMissing();
    });
  }

  /** Runs the clock, which also moves the charts on while no price arrives. */
  runClock(): void {
    setInterval(() => {
      this.now.value = Date.now();
      if (this.#idleMs() >= IDLE_DRAW_MS) this.#drawSoon();
    }, CLOCK_MS);
  }

  signOut(): void {
    const session = this.session.peek();
    if (session !== undefined) revoke(session.token);
    this.#stop('');
  }

  /** Requests the history of the last day, too, now and after ticks were missed. */
  wantDay(): void {
    if (this.#lengths.has(DAY)) return;
    this.#lengths.add(DAY);
    this.#needsHistory = true;
    void this.#requestMissing();
  }

  togglePause(): void {
    this.#draw();
    this.isPaused.value = !this.isPaused.peek();
    this.#draw();
  }

  /** @param reason message for the user about the session's end, if any */
  #stop(reason: string): void {
    batch(() => {
      this.client?.close();
      this.client = undefined;
      this.diagnostics.signedOut();
      this.session.value = undefined;
      this.roundTrip.value = undefined;
      this.connection.value = { state: 'stopped', reason };
    });
  }

  /** A tick has all symbols, which are others if the service was restarted with others. */
  #take({ prices }: Tick): void {
    this.#arrivedAt = Date.now();
    const before = this.#quotes;
    const quoteOf = (price: Price) => before.get(price.symbol)?.update(price) ?? new Quote(price, this.#leastGap);
    this.#quotes = new Map(prices.map((price) => [price.symbol, quoteOf(price)]));
    this.ticks.value++;
    if (this.#quotes.size === before.size && prices.every(({ symbol }) => before.has(symbol))) {
      this.#drawSoon();
      return;
    }
    // The browser may lay out new cards before the next animation frame, so they are drawn at once.
    this.quotes.value = [...this.#quotes.values()].sort((a, b) => a.symbol.localeCompare(b.symbol));
    this.#draw();
  }

  #drawSoon(): void {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.#draw();
    });
  }

  #draw(): void {
    if (this.isPaused.peek() || this.#quotes.size === 0) return;
    for (const quote of this.#quotes.values()) quote.shown = quote.latest;
    const newest = Math.max(...this.quotes.peek().map(({ latest }) => latest.timestamp));
    this.drawn.value = { end: newest + Math.max(0, Math.floor(this.#idleMs() / 1_000)) };
  }

  /** Returns the time for which prices are awaited, 0 while the user is signed out. */
  #idleMs(): number {
    return this.session.peek() === undefined ? 0 : Date.now() - this.#arrivedAt;
  }

  async #requestMissing(): Promise<void> {
    const client = this.client;
    if (client === undefined || this.#quotes.size === 0 || !this.#needsHistory || this.#isRequesting) return;
    this.#needsHistory = false;
    this.#isRequesting = true;
    try {
      for (const seconds of this.#lengths) {
        const { timestamps, prices } = await client.history({ seconds });
        for (const [symbol, quote] of this.#quotes) quote.fill(seconds, timestamps, prices[symbol] ?? []);
        this.drawn.value = { ...this.drawn.peek() };
      }
    } catch {
      this.#needsHistory = true;
    } finally {
      this.#isRequesting = false;
    }
  }
}

export const model = new Model();

function reasonOf(error: Error): string {
  const isRefused = error instanceof ServiceError && error.status === 401;
  if (isRefused || (error instanceof ClosedError && TOKEN_CLOSE_CODES.includes(error.code))) return SESSION_ENDED;
  if (error instanceof ClosedError) return `The service ended the connection with code ${error.code}.`;
  return `The service refused the connection: ${error.message}.`;
}
