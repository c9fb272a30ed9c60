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
export interface StreamTick extends Omit<Tick, 'missed'> {
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
export function isRepeated(last: StreamTick | undefined, { epoch, seq }: StreamTick): boolean {
  return last?.epoch === epoch && seq <= last.seq;
}
