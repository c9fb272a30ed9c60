export type CumulativeCounts = Omit<ReturnType<Histogram['cumulative']>, 'sum'>;

/** Histogram of durations. Cumulative counts are computed only when read, so that `observe` takes a few nanoseconds. */
export class Histogram {
  /** Upper bounds of the buckets in seconds, ascending. One more bucket counts longer durations. */
  readonly bounds: readonly number[];
  /** Count of each bucket, followed by the sum of all durations in seconds. */
  readonly #cells: Float64Array;

  constructor(bounds: readonly number[], memory?: SharedArrayBuffer) {
    this.bounds = bounds;
    this.#cells = new Float64Array(memory ?? new ArrayBuffer(Histogram.bytes(bounds)));
  }

  static bytes(bounds: readonly number[]): number {
    return (bounds.length + 2) * Float64Array.BYTES_PER_ELEMENT;
  }

  observe(seconds: number): void {
    const cells = this.#cells;
    const last = this.bounds.length;
    let bucket = 0;
    while (bucket < last && seconds > (this.bounds[bucket] as number)) bucket += 1;
    cells[bucket] = (cells[bucket] as number) + 1;
    cells[last + 1] = (cells[last + 1] as number) + seconds;
  }

  /** Returns the number of durations up to each bound, the number of all durations, and their sum in seconds. */
  cumulative() {
    let count = 0;
    const upTo = this.bounds.map((_, bucket) => {
      count += this.#cells[bucket] as number;
      return count;
    });
    count += this.#cells[this.bounds.length] as number;
    return { upTo, count, sum: this.#cells[this.bounds.length + 1] as number };
  }
}

/** Estimates a quantile (0.99 for the 99th percentile) by linear interpolation in its bucket, up to the last bound. */
export function quantile(bounds: readonly number[], { upTo, count }: CumulativeCounts, fraction: number): number {
  const rank = fraction * count;
  const bucket = upTo.findIndex((each) => each >= rank);
  if (bucket < 0) return bounds.at(-1) as number;
  const [lower, below] = bucket === 0 ? [0, 0] : [bounds[bucket - 1] as number, upTo[bucket - 1] as number];
  const [upper, within] = [bounds[bucket] as number, (upTo[bucket] as number) - below];
  return lower + ((upper - lower) * (rank - below)) / within;
}

/** Bucket bounds in seconds for the durations of HTTP requests. */
export const DURATION_BOUNDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
] as const;

/** Bucket bounds in seconds for the durations of tasks, which can wait or run for hours. */
export const TASK_DURATION_BOUNDS = [
  ...DURATION_BOUNDS,
  ...[30, 60, 120, 300, 600, 1800, 3600, 10_800, 43_200, 86_400],
] as const;

/** Bucket bounds in seconds for tick delays and event loop delays. */
export const DELAY_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5] as const;

/** Each beat wakes its thread, which costs CPU time also in an idle process. */
const BEAT_INTERVAL_MS = 100;

/**
 * Records the event loop delay of the calling thread, which is how late a timer fires, until `stop` is called.
 *
 * @param memory of the histogram
 * @param onBeat called ten times a second
 */
export function recordLoopDelay(memory?: SharedArrayBuffer, onBeat = () => {}) {
  const delays = new Histogram(DELAY_BOUNDS, memory);
  let previous = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    delays.observe(Math.max(0, now - previous - BEAT_INTERVAL_MS) / 1000);
    previous = now;
    onBeat();
  }, BEAT_INTERVAL_MS).unref();
  return { delays, stop: () => clearInterval(timer) };
}
