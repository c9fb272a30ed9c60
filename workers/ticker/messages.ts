import type { TickerSymbol } from '../shared/symbols.ts';

/** `workerData` of the ticker thread. */
export interface TickerStart {
  intervalMs: number;
  symbols: readonly TickerSymbol[];
  /**
   * Float64Array with the current price of each symbol, from which a restarted thread continues. The main thread writes
   * the prices of other nodes' ticks.
   */
  prices: SharedArrayBuffer;
  /** Time of the main thread in milliseconds since the epoch, from which that of this thread continues. */
  now: number;
  /** Seed of deterministic prices. If undefined, computed prices are random. */
  seed: string | undefined;
  /** Value of `PRICE_SOURCE`. If undefined, the prices are computed. */
  source: string | undefined;
  /** Float64Array of counters, indexed by {@link SourceCount}. */
  sourceCounts: SharedArrayBuffer;
  /** Float64Array of one element: due or arrival time of the last tick, in milliseconds since the epoch. */
  lastDue: SharedArrayBuffer;
  /** Float64Array of one element: end of this node's lease in monotonic milliseconds. Undefined on a single node. */
  lease: SharedArrayBuffer | undefined;
  /** Memory of the histogram of the thread's event loop delays. */
  delays: SharedArrayBuffer;
  /** Int32Array of one element. The thread increments it regularly, so that the main thread can detect a hang. */
  heartbeat: SharedArrayBuffer;
}

/** Message from the ticker thread. */
export type TickerToMain =
  | { topic: 'ready' }
  /** `problem` is undefined once the price source has recovered. */
  | { topic: 'source'; problem: string | undefined }
  | ({ topic: 'tick' } & MadeTick);

export interface MadeTick {
  /** One price per symbol, in the order of the symbols. */
  prices: readonly number[];
  /** Unix time in seconds. */
  timestamp: number;
  /** Time at which the tick was due, in milliseconds since the epoch. */
  due: number;
}

/** Indexes of `TickerStart.sourceCounts`. */
export const SourceCount = {
  /** Number of failed calls to the price source, plus errors that the source raised outside a call. */
  failed: 0,
  /** Number of ticks that became due while a call of the price source had been pending for half an interval or longer. */
  stalled: 1,
  /** Number of prices that were not positive numbers. A whole answer of the wrong type counts once per symbol. */
  refused: 2,
  count: 3,
} as const;
