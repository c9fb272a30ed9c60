/** Tick interval assumed until the service states it, in milliseconds. */
const DEFAULT_MS = 1_000;
/** Number of missed intervals after which prices are stale, and a chart shows a gap. */
const MISSED_INTERVALS = 3;
/** Minimum time without a tick after which prices are stale, in milliseconds. */
const MIN_STALE_MS = 3_000;
/** Maximum number of measured intervals from which the median is computed. */
const MAX_SAMPLES = 9;
/** Minimum number of measured intervals for a median. With fewer, the interval reported by the service is used. */
const MIN_SAMPLES = 3;

/** Interval between two ticks: the median of the measured intervals, or the interval reported by the service. */
export class TickInterval {
  #statedMs = DEFAULT_MS;
  readonly #samples: number[] = [];
  #previousAt: number | undefined;
  #isSnapshotNext = true;

  get milliseconds(): number {
    if (this.#samples.length < MIN_SAMPLES) return this.#statedMs;
    return this.#samples.toSorted((a, b) => a - b)[this.#samples.length >> 1] as number;
  }

  /** Milliseconds without a tick after which prices are stale. */
  get staleAfterMs(): number {
    return Math.max(MIN_STALE_MS, MISSED_INTERVALS * this.milliseconds);
  }

  /** Sets the interval stated by the service, in milliseconds. */
  set statedMs(milliseconds: number) {
    this.#statedMs = milliseconds;
  }

  /** Starts a new measurement. Called when the stream is opened. */
  restart(): void {
    this.#samples.length = 0;
    this.#previousAt = undefined;
    this.#isSnapshotNext = true;
  }

  /**
   * Records the arrival of prices at `now`, in milliseconds on a monotonic clock. The first prices are a snapshot, which is
   * not a tick.
   */
  note(now: number): void {
    if (this.#isSnapshotNext) {
      this.#isSnapshotNext = false;
      return;
    }
    if (this.#previousAt !== undefined) {
      this.#samples.push(now - this.#previousAt);
      if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    }
    this.#previousAt = now;
  }
}
