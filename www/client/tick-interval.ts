const DEFAULT_MS = 1_000;
/** Number of missed ticks after which prices are stale. */
const MISSED_INTERVALS = 3;
const MIN_STALE_MS = 3_000;
const MAX_SAMPLES = 9;
/** With fewer measured intervals, the interval reported by the service is used. */
const MIN_SAMPLES = 3;

/** Tick interval: the median of the measured intervals, or the interval reported by the service. */
export class TickInterval {
  #statedMs = DEFAULT_MS;
  readonly #samples: number[] = [];
  #previousAt: number | undefined;
  #isSnapshotNext = true;

  get milliseconds(): number {
    if (this.#samples.length < MIN_SAMPLES) return this.#statedMs;
    return [...this.#samples].sort((a, b) => a - b)[this.#samples.length >> 1] as number;
  }

  /** Milliseconds without a tick after which prices are stale. */
  get staleAfterMs(): number {
    return Math.max(MIN_STALE_MS, MISSED_INTERVALS * this.milliseconds);
  }

  set statedMs(milliseconds: number) {
    this.#statedMs = milliseconds;
  }

  /** Discards the measured tick intervals. Must be called when the stream is opened. */
  restart(): void {
    this.#samples.length = 0;
    this.#previousAt = undefined;
    this.#isSnapshotNext = true;
  }

  /** Records the arrival of prices. @param now milliseconds of a monotonic clock */
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
