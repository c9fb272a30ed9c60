import { type CumulativeCounts, type Histogram, quantile } from '../../../workers/histogram.ts';

const SAMPLE_SECONDS = 30;
const MAX_SAMPLES = 10;
/** Maximum period from which percentiles are computed. The actual period depends on the age of the oldest sample. */
export const WINDOW_SECONDS = SAMPLE_SECONDS * MAX_SAMPLES;

/** Percentiles of durations, in seconds. */
export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
}

/** Percentiles of the durations in several histograms with the same bounds, over the last five minutes. */
export class RecentDurations {
  readonly #bounds: readonly number[];
  readonly #histograms: readonly Histogram[];
  readonly #samples: CumulativeCounts[];
  #secondsSinceSample = 0;

  constructor(histograms: readonly [Histogram, ...Histogram[]]) {
    this.#bounds = histograms[0].bounds;
    this.#histograms = histograms;
    this.#samples = [this.#total()];
  }

  /** Must be called once per second. Every 30th call saves the counts of the histograms. */
  tick(): void {
    this.#secondsSinceSample += 1;
    if (this.#secondsSinceSample < SAMPLE_SECONDS) return;
    this.#secondsSinceSample = 0;
    this.#samples.push(this.#total());
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
  }

  /** Returns estimates of the percentiles with three significant digits, or undefined if no duration was counted. */
  percentiles(): Percentiles | undefined {
    const now = this.#total();
    const [oldest] = this.#samples as [CumulativeCounts];
    const upTo = now.upTo.map((count, bucket) => count - (oldest.upTo[bucket] as number));
    const recent = { upTo, count: now.count - oldest.count };
    if (recent.count === 0) return undefined;
    const estimate = (fraction: number) => Number(quantile(this.#bounds, recent, fraction).toPrecision(3));
    return { p50: estimate(0.5), p95: estimate(0.95), p99: estimate(0.99) };
  }

  #total(): CumulativeCounts {
    const upTo = this.#bounds.map(() => 0);
    let total = 0;
    for (const histogram of this.#histograms) {
      const { upTo: own, count } = histogram.cumulative();
      for (const [bucket, each] of own.entries()) upTo[bucket] = (upTo[bucket] as number) + each;
      total += count;
    }
    return { upTo, count: total };
  }
}
