import { isRepeated, type Price, type StreamTick, type TickReader } from './tick-reader.ts';

/** Messages of `ticker.v2` from the service, but for `error`. */
export type StreamMessage =
  | { type: 'pong' }
  | { type: 'welcome'; interval_ms: number; symbols: string[] }
  | { type: 'ticker'; epoch: number; seq: number; data: Price[] }
  | { type: 'gap'; from: number | null };

interface Connection {
  send(message: object): void;
  ping(): void;
}

/** Delay in which changes of the readers are collected, so that many readers do not exceed the service's rate limit. */
const CHANGE_DELAY_MS = 100;

/** Ticks of successive connections, each of which continues after the last tick of the one before. */
export class TickStream {
  readonly readers = new Set<TickReader>();
  intervalMs = 1_000;
  /** All symbols of the service, none unless connected. */
  symbols: readonly string[] = [];
  connection: Connection | undefined;
  /** Symbols that the service sends. */
  #chosen = '';
  #changeTimer: ReturnType<typeof setTimeout> | undefined;
  #last: StreamTick | undefined;
  #run = 0;
  /** Last tick of the connection, for new readers. */
  #newest: StreamTick | undefined;
  /** Whether ticks may precede the answer to `resume`. They do not follow the last tick. */
  #isResuming = false;

  add(reader: TickReader): void {
    this.readers.add(reader);
    if (this.#newest !== undefined) reader.add(this.#newest, this.symbols, 0);
  }

  receive(message: StreamMessage, connection: Connection): void {
    if (message.type === 'welcome') {
      this.intervalMs = message.interval_ms;
      this.symbols = message.symbols;
      this.#chosen = message.symbols.join();
      this.connection = connection;
      this.#isResuming = this.#last !== undefined;
      // Before `subscribe`, whose answer would precede the missed ticks otherwise.
      if (this.#last !== undefined) connection.send({ type: 'resume', epoch: this.#last.epoch, seq: this.#last.seq });
      this.#choose();
      for (const reader of this.readers) reader.wake();
    } else if (message.type === 'gap') {
      this.#isResuming = false;
      if (message.from === null) this.#run += 1;
    } else if (message.type === 'ticker') {
      const { epoch, seq, data: prices } = message;
      const tick = { epoch, seq, prices, run: this.#run };
      const isSnapshot = this.#newest === undefined;
      this.#newest = tick;
      // The answer to `subscribe` repeats a tick.
      if (!isRepeated(this.#last, tick)) {
        if (this.#isResuming && (isSnapshot || seq - 1 !== this.#last?.seq)) return;
        this.#isResuming = false;
        this.#last = tick;
      }
      for (const reader of this.readers) reader.add(tick, this.symbols, this.intervalMs);
    }
  }

  /** Chooses the symbols that the readers want, soon, and once for many changes. */
  chooseSoon(): void {
    if (this.symbols.length > 0) this.#changeTimer ??= setTimeout(() => this.#choose(), CHANGE_DELAY_MS);
  }

  /** Ends a connection. */
  end(): void {
    this.connection = this.#newest = undefined;
    this.symbols = [];
    // Later readers start with the newest tick.
    if (this.readers.size > 0) return;
    this.#last = undefined;
    this.#run += 1;
  }

  #choose(): void {
    this.#changeTimer = undefined;
    const readers = [...this.readers];
    const symbols = this.symbols.filter((each) => readers.some((reader) => reader.wants(each)));
    if (symbols.join() === this.#chosen) return;
    this.#chosen = symbols.join();
    this.connection?.send({ type: 'subscribe', symbols });
  }
}
