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

/** Updates the current prices by a price source on each tick. Keeps the last prices if the source fails. Never throws. */
export function sourcedPrices(options: SourcedPricesOptions) {
  const { symbols, values, intervalMs, counts, onProblem } = options;
  let source: PriceSource | undefined;
  let isStarted = false;
  /** Pending call of the source, with its start in monotonic milliseconds. */
  let pending: { name: string; calledAt: number } | undefined;
  let reported: string | undefined;
  let retryAt = 0;

  const count = (index: number, number = 1): void => {
    counts[index] = (counts[index] as number) + number;
  };

  const setProblem = (problem: string | undefined): void => {
    const text = problem === undefined ? undefined : oneLine(problem).slice(0, MAX_PROBLEM);
    if (text === reported) return;
    reported = text;
    onProblem(text);
  };

  const report = (name: string, error: unknown): void => {
    count(SourceCount.failed);
    setProblem(`${name} failed: ${readThrown(error).reason}`);
  };

  const callSource = async <Result>(
    name: string,
    call: () => Result,
    onResult: (result: Awaited<Result>) => void,
  ): Promise<void> => {
    const own = { name, calledAt: performance.now() };
    pending = own;
    try {
      const result = await call();
      // Ignores the result if the call of the price source was abandoned, or was made before `pause`.
      if (pending === own) onResult(result);
    } catch (error) {
      if (pending !== own) return;
      retryAt = performance.now() + RETRY_MS;
      report(name, error);
    } finally {
      if (pending === own) pending = undefined;
    }
  };

  /** Opens the price source. Called before the first step, so that a module can load meanwhile. */
  const open = (): Promise<void> =>
    callSource('loading', options.open, (opened) => {
      source = opened;
    });

  const start = (opened: PriceSource): Promise<void> => {
    const current = symbols.map((each, index) => ({ ...each, price: values[index] as number }));
    return callSource(
      'start()',
      () => opened.start?.(current),
      () => {
        isStarted = true;
      },
    );
  };

  /** Writes the valid prices to `values`. Returns the first problem, or undefined if all prices are valid. */
  const write = (answer: unknown): string | undefined => {
    if (!isPrices(answer) || answer.length !== symbols.length) {
      count(SourceCount.refused, symbols.length);
      const got = isPrices(answer) ? `${answer.length} prices` : 'no array';
      return `prices() returned ${got} for ${symbols.length} symbols`;
    }
    let problem: string | undefined;
    for (const [index, { symbol, decimals }] of symbols.entries()) {
      const value: unknown = answer[index];
      const price = typeof value === 'number' ? roundPrice(value, decimals) : Number.NaN;
      if (price > 0 && price < Number.POSITIVE_INFINITY) values[index] = price;
      else {
        count(SourceCount.refused);
        problem ??= `prices() returned ${typeof value === 'number' ? value : 'no number'} for ${symbol}`;
      }
    }
    return problem;
  };

  const take = (answer: unknown): void => setProblem(write(answer));

  /** Reports a slow call of an earlier tick, and later abandons it. Returns whether the source can be called again. */
  const checkPending = (): boolean => {
    if (pending === undefined) return true;
    const elapsedMs = performance.now() - pending.calledAt;
    // Does not yet report a recent call as slow, because the module may still be loading at the first tick.
    if (elapsedMs < intervalMs / 2) return false;
    count(SourceCount.stalled);
    setProblem(`${pending.name} takes longer than one interval of ${intervalMs} ms`);
    if (elapsedMs < Math.max(ABANDON_MS, 2 * intervalMs)) return false;
    pending = undefined;
    return true;
  };

  return {
    open,
    /**
     * Updates the prices for the tick due at `due` (milliseconds since the epoch). Fulfilled when the source has answered,
     * or after one event loop turn. A later answer counts for the next tick.
     */
    async step(due: number): Promise<void> {
      if (!checkPending()) return;
      const turn = new Promise<void>((resolve) => void setImmediate(resolve));
      const mayRetry = performance.now() >= retryAt;
      if (source === undefined && mayRetry) await Promise.race([open(), turn]);
      if (source !== undefined && !isStarted && mayRetry) await Promise.race([start(source), turn]);
      const opened = isStarted ? source : undefined;
      if (opened === undefined) return;
      await Promise.race([callSource('prices()', () => opened.prices(due, values.slice()), take), turn]);
    },
    /** Stops asking the price source for prices while another node makes the ticks. */
    pause(): void {
      // A source that is still being opened is not abandoned.
      if (source === undefined) return;
      isStarted = false;
      pending = undefined;
      setProblem(undefined);
    },
    /** Reports an error raised by the source outside a call. If a problem is already reported, only counts the error. */
    fail(error: unknown): void {
      if (reported === undefined) report('the source', error);
      else count(SourceCount.failed);
    },
  };
}

function isPrices(value: unknown): value is Prices {
  return Array.isArray(value) || value instanceof Float64Array;
}
