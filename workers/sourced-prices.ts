import { SourceCount } from './messages.ts';
import type { PriceSource, Prices, TimedPriceSource } from './price-source-api.ts';
import { roundPrice, type TickerPrice, type TickerSymbol } from './symbols.ts';
import { oneLine, readThrown } from './thrown.ts';

export interface SourcedPricesOptions {
  symbols: readonly TickerSymbol[];
  /** Last known price of each symbol, updated with valid prices from the source. */
  values: Float64Array;
  intervalMs: number;
  /** Opens the price source. Called again after a failure. */
  open: () => PriceSource | TimedPriceSource | Promise<PriceSource>;
  counts: Float64Array;
  /** `problem` is undefined once the source has recovered. */
  onProblem: (problem: string | undefined) => void;
}

interface PendingCall {
  name: string;
  /** Start of the call in monotonic milliseconds. */
  calledAt: number;
}

const RETRY_MS = 1000;
/** A pending call of the price source is abandoned after `ABANDON_MS` or two tick intervals, whichever is longer. */
const ABANDON_MS = 10_000;
const MAX_PROBLEM = 200;

/** Current prices, updated by a price source on each tick. Keeps the last prices if the source fails. Never throws. */
export class SourcedPrices {
  readonly #options: SourcedPricesOptions;
  #source: PriceSource | TimedPriceSource | undefined;
  #isStarted = false;
  #pending: PendingCall | undefined;
  /** Prices that arrived after their tick was sent, and are applied at the next tick. */
  #late: { answer: unknown } | undefined;
  #problem: string | undefined;
  #retryAt = 0;

  constructor(options: SourcedPricesOptions) {
    this.#options = options;
    this.#open();
  }

  /**
   * Updates the prices for the tick due at `due` (milliseconds since the epoch).
   *
   * @returns a promise if the source is asynchronous, fulfilled when the prices arrive, or after one event loop turn if
   *   they have not arrived by then
   */
  step(due: number): Promise<void> | undefined {
    if (!this.#checkPending()) return undefined;
    if (this.#late !== undefined) this.#take(this.#late.answer);
    this.#late = undefined;
    if (this.#source === undefined) this.#open();
    if (this.#source !== undefined && !this.#isStarted) this.#start(this.#source);
    return this.#source !== undefined && this.#isStarted ? this.#ask(this.#source, due) : undefined;
  }

  /** Stops asking the price source for prices while another node makes the ticks. */
  pause(): void {
    const isOpening = this.#source === undefined;
    if (isOpening) return;
    this.#isStarted = false;
    this.#pending = undefined;
    this.#late = undefined;
    this.#setProblem(undefined);
  }

  /** Reports an error raised by the source outside a call. If a problem is already reported, only counts the error. */
  fail(error: unknown): void {
    if (this.#problem === undefined) this.#report('the source', error);
    else this.#count(SourceCount.failed);
  }

  /** Returns the current prices with the timestamp `now` (milliseconds since the epoch). */
  snapshot(now: number): TickerPrice[] {
    const { symbols, values } = this.#options;
    if (this.#source !== undefined && 'pricesAt' in this.#source) this.#take(this.#source.pricesAt(now));
    const timestamp = Math.floor(now / 1000);
    return symbols.map(({ symbol }, index) => ({ symbol, price: values[index] as number, timestamp }));
  }

  #open(): void {
    if (performance.now() < this.#retryAt) return;
    void this.#call('loading', this.#options.open, (source) => {
      this.#source = source;
    });
  }

  #start(source: PriceSource): void {
    if (performance.now() < this.#retryAt) return;
    const { symbols, values } = this.#options;
    const current = symbols.map((each, index) => ({ ...each, price: values[index] as number }));
    void this.#call(
      'start()',
      () => source.start?.(current),
      () => {
        this.#isStarted = true;
      },
    );
  }

  #ask(source: PriceSource, due: number): Promise<void> | undefined {
    let isSent = false;
    const answered = this.#call(
      'prices()',
      () => source.prices(due, this.#options.values.slice()),
      (answer) => {
        if (isSent) this.#late = { answer };
        else this.#take(answer);
      },
    );
    if (answered === undefined) return undefined;
    const turnEnds = new Promise<void>((resolve) => {
      setImmediate(() => {
        isSent = true;
        resolve();
      });
    });
    return Promise.race([answered, turnEnds]);
  }

  #call<Result>(
    name: string,
    call: () => Result | PromiseLike<Result>,
    onResult: (result: Result) => void,
  ): Promise<void> | undefined {
    try {
      const result = call();
      if (!isPromise(result)) {
        onResult(result);
        return undefined;
      }
      const pending: PendingCall = { name, calledAt: performance.now() };
      this.#pending = pending;
      const ended = (then: () => void) => {
        // Ignores the result if the call of the price source was abandoned, or was made before `pause`.
        if (this.#pending !== pending) return;
        this.#pending = undefined;
        then();
      };
      return Promise.resolve(result).then(
        (value) => ended(() => onResult(value)),
        (error: unknown) => ended(() => this.#fail(name, error)),
      );
    } catch (error) {
      this.#fail(name, error);
      return undefined;
    }
  }

  /** Reports a slow call of an earlier tick, and later abandons it. Returns whether the source can be called again. */
  #checkPending(): boolean {
    if (this.#pending === undefined) return true;
    const { name, calledAt } = this.#pending;
    const { intervalMs } = this.#options;
    const elapsedMs = performance.now() - calledAt;
    // Does not yet report a recent call as slow, because the module may still be loading at the first tick.
    if (elapsedMs < intervalMs / 2) return false;
    this.#count(SourceCount.stalled);
    this.#setProblem(`${name} takes longer than one interval of ${intervalMs} ms`);
    if (elapsedMs < Math.max(ABANDON_MS, 2 * intervalMs)) return false;
    this.#pending = undefined;
    return true;
  }

  #take(answer: unknown): void {
    try {
      this.#setProblem(this.#write(answer));
    } catch (error) {
      this.#fail('reading the prices', error);
    }
  }

  /** Writes the valid prices to `values`. Returns the first problem, or undefined if all prices are valid. */
  #write(answer: unknown): string | undefined {
    const { symbols, values } = this.#options;
    if (!isPrices(answer) || answer.length !== symbols.length) {
      this.#count(SourceCount.refused, symbols.length);
      const got = isPrices(answer) ? `${answer.length} prices` : 'no array';
      return `prices() returned ${got} for ${symbols.length} symbols`;
    }
    let problem: string | undefined;
    for (const [index, { symbol, decimals }] of symbols.entries()) {
      const value: unknown = answer[index];
      const price = typeof value === 'number' ? roundPrice(value, decimals) : Number.NaN;
      if (price > 0 && price < Number.POSITIVE_INFINITY) values[index] = price;
      else {
        this.#count(SourceCount.refused);
        problem ??= `prices() returned ${typeof value === 'number' ? value : 'no number'} for ${symbol}`;
      }
    }
    return problem;
  }

  #fail(name: string, error: unknown): void {
    this.#retryAt = performance.now() + RETRY_MS;
    this.#report(name, error);
  }

  #report(name: string, error: unknown): void {
    this.#count(SourceCount.failed);
    this.#setProblem(`${name} failed: ${readThrown(error).reason}`);
  }

  #count(index: number, number = 1): void {
    const { counts } = this.#options;
    counts[index] = (counts[index] as number) + number;
  }

  #setProblem(problem: string | undefined): void {
    const text = problem === undefined ? undefined : oneLine(problem).slice(0, MAX_PROBLEM);
    if (text === this.#problem) return;
    this.#problem = text;
    this.#options.onProblem(text);
  }
}

function isPromise<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof (value as PromiseLike<Value> | null | undefined)?.then === 'function';
}

function isPrices(value: unknown): value is Prices {
  return Array.isArray(value) || value instanceof Float64Array;
}
