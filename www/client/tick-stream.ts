/** `timestamp` is in Unix seconds. */
export interface Price {
  symbol: string;
  price: number;
  timestamp: number;
}

export interface Tick {
  /** Changes if the service is restarted, or if another of its nodes makes the ticks. */
  epoch: number;
  /** Number of the tick, which rises by one within an epoch. */
  seq: number;
  prices: Price[];
  /** Number of ticks that the reader did not get since its previous tick. `Infinity` if unknown, as after a restart. */
  missed: number;
}

/** Tick of the stream. Numbers of different runs are not related. */
interface StreamTick extends Omit<Tick, 'missed'> {
  run: number;
}

/** Ticks for one reader. A reader that has taken none for an interval gets only the newest. */
export class TickReader {
  readonly #symbols: ReadonlySet<string> | undefined;
  /** Called when there may be something new. */
  wake: () => void;
  #unread: StreamTick[] = [];
  #taken: StreamTick | undefined;
  /** Time of the last `take`, NaN for a reader that waits. */
  #takenAt = Number.NaN;

  /** @param symbols all if undefined */
  constructor(symbols?: readonly string[], wake: () => void = () => {}) {
    this.#symbols = symbols && new Set(symbols);
    this.wake = wake;
  }

  wants(symbol: string): boolean {
    return this.#symbols?.has(symbol) ?? true;
  }

  /** @throws {RangeError} if one of the symbols is not known */
  check(known: readonly string[]): void {
    const unknown = [...(this.#symbols ?? [])].find((symbol) => !known.includes(symbol));
    if (unknown !== undefined) throw new RangeError(`unknown symbol ${unknown}: the service has ${known.join(', ')}`);
  }

  /** Adds a tick that is new to the reader and has all symbols that the reader wants. @param known all symbols */
  add(tick: StreamTick, known: readonly string[], intervalMs: number): void {
    const prices = tick.prices.filter(({ symbol }) => this.wants(symbol));
    if (isRepeated(this.#unread.at(-1) ?? this.#taken, tick) || prices.length < (this.#symbols?.size ?? known.length))
      return;
    if (performance.now() - this.#takenAt > intervalMs) this.#unread = [];
    this.#unread.push({ ...tick, prices });
    this.wake();
  }

  /** Returns the next unread tick, if any. @param isNewest whether to skip all but the newest */
  take(isNewest?: boolean): Tick | undefined {
    const tick = isNewest ? this.#unread.splice(0).at(-1) : this.#unread.shift();
    if (tick === undefined) return undefined;
    const { run, ...own } = tick;
    const before = this.#taken ?? { run, seq: own.seq - 1 };
    this.#taken = tick;
    this.#takenAt = performance.now();
    return { ...own, missed: before.run === run ? Math.max(0, own.seq - before.seq - 1) : Number.POSITIVE_INFINITY };
  }

  /** Waits for `wake`. */
  wait(): Promise<void> {
    // A reader that waits is not slow, although no tick has come for long.
    this.#takenAt = Number.NaN;
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }
}

/** Whether a tick is not later than another one of the same epoch. */
function isRepeated(last: StreamTick | undefined, { epoch, seq }: StreamTick): boolean {
  return last?.epoch === epoch && seq <= last.seq;
}

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
