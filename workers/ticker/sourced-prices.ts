import { roundPrice, type TickerSymbol } from '../shared/symbols.ts';
import { oneLine, readThrown } from '../shared/thrown.ts';
import { SourceCount } from './messages.ts';

/** Source of the ticker's prices, either built in or a module. */
export interface PriceSource {
  /** Called with the last known prices before the first call of `prices`, and when this node takes over the ticks. */
  start?(symbols: readonly TickerSymbol[]): unknown;
  /** Returns one tick's prices in the order of the symbols. `due` is in milliseconds since the epoch. */
  prices(due: number, last: Prices): Prices | PromiseLike<Prices>;
}

export type Prices = readonly number[] | Float64Array;

export interface SourcedPricesOptions {
  symbols: readonly TickerSymbol[];
  /** Last known price of each symbol, updated with valid prices from the source. */
  values: Float64Array;
  intervalMs: number;
  /** Opens the price source. Called again after a failure. */
  open: () => PriceSource | Promise<PriceSource>;
  counts: Float64Array;
  /** `problem` is undefined once the source has recovered. */
  onProblem: (problem: string | undefined) => void;
}

const RETRY_MS = 1000;
/** A pending call of the price source is abandoned after `ABANDON_MS` or two tick intervals, whichever is longer. */
const ABANDON_MS = 10_000;
const MAX_PROBLEM = 200;

/** Current prices, updated by a price source on each tick. Keeps the last prices if the source fails. Never throws. */
export class SourcedPrices {
  readonly #options: SourcedPricesOptions;
  #source: PriceSource | undefined;
  #isStarted = false;
  /** Pending call of the source, with its start in monotonic milliseconds. */
  #pending: { name: string; calledAt: number } | undefined;
  #problem: string | undefined;
  #retryAt = 0;

  constructor(options: SourcedPricesOptions) {
    this.#options = options;
  }

  /** Opens the price source. Called before the first step, so that a module can load meanwhile. */
  async open(): Promise<void> {
    await this.#call('loading', this.#options.open, (source) => {
      this.#source = source;
    });
  }

  /**
   * Updates the prices for the tick due at `due` (milliseconds since the epoch). Fulfilled when the source has answered,
   * or after one event loop turn. A later answer counts for the next tick.
   */
  async step(due: number): Promise<void> {
    if (!this.#checkPending()) return;
    const turn = new Promise<void>((resolve) => void setImmediate(resolve));
    const mayRetry = performance.now() >= this.#retryAt;
    if (this.#source === undefined && mayRetry) await Promise.race([this.open(), turn]);
    if (this.#source !== undefined && !this.#isStarted && mayRetry)
      await Promise.race([this.#start(this.#source), turn]);
    if (this.#source !== undefined && this.#isStarted) await Promise.race([this.#ask(this.#source, due), turn]);
  }

  /** Stops asking the price source for prices while another node makes the ticks. */
  pause(): void {
    // A source that is still being opened is not abandoned.
    if (this.#source === undefined) return;
    this.#isStarted = false;
    this.#pending = undefined;
    this.#setProblem(undefined);
  }

  /** Reports an error raised by the source outside a call. If a problem is already reported, only counts the error. */
  fail(error: unknown): void {
    if (this.#problem === undefined) this.#report('the source', error);
    else this.#count(SourceCount.failed);
  }

  #start(source: PriceSource): Promise<void> {
    const { symbols, values } = this.#options;
    const current = symbols.map((each, index) => ({ ...each, price: values[index] as number }));
    return this.#call(
      'start()',
      () => source.start?.(current),
      () => {
        this.#isStarted = true;
      },
    );
  }

  #ask(source: PriceSource, due: number): Promise<void> {
    return this.#call(
      'prices()',
      () => source.prices(due, this.#options.values.slice()),
      (answer) => this.#take(answer),
    );
  }

  async #call<Result>(name: string, call: () => Result, onResult: (result: Awaited<Result>) => void): Promise<void> {
    const pending = { name, calledAt: performance.now() };
    this.#pending = pending;
    let end: () => void;
    try {
      const result = await call();
      end = () => onResult(result);
    } catch (error) {
      end = () => this.#fail(name, error);
    }
    // Ignores the result if the call of the price source was abandoned, or was made before `pause`.
    if (this.#pending !== pending) return;
    this.#pending = undefined;
    end();
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

function isPrices(value: unknown): value is Prices {
  return Array.isArray(value) || value instanceof Float64Array;
}
