const MAX_SAMPLES = 100;
const WHOLE_SECONDS_TOLERANCE = 0.02;

/** Measurements of the connection to the service. Undefined values are not known yet. */
export interface Readings {
  roundTrip: { p50: number; p95: number; count: number } | undefined;
  /** Milliseconds since the newest prices arrived. */
  tickAge: number | undefined;
  /** Mean deviation of the time between two ticks from the tick interval, in milliseconds. */
  jitter: number | undefined;
  missedTicks: number;
  reconnects: number;
  /** `at` is in milliseconds since the epoch. */
  lastClose: { code: number; at: number } | undefined;
}

/** Measures the connection since the page was opened. Times are milliseconds of a monotonic clock, except `closed`. */
export class Diagnostics {
  readonly #roundTrips: number[] = [];
  readonly #gaps: number[] = [];
  #connections = 0;
  #missedTicks = 0;
  #lastClose: Readings['lastClose'];
  #isSnapshotNext = true;
  #arrivedAt: number | undefined;
  #previousTickAt: number | undefined;
  #previousTimestamp: number | undefined;

  /** Records a new connection, whose first prices are a snapshot and not a tick. */
  opened(): void {
    this.#connections++;
    this.#isSnapshotNext = true;
    this.#previousTickAt = undefined;
  }

  /** @param at milliseconds since the epoch */
  closed(code: number, at: number): void {
    this.#lastClose = { code, at };
  }

  /** Records a sign-out, so that ticks sent until the next sign-in do not count as missed. */
  signedOut(): void {
    this.#previousTimestamp = undefined;
    this.#arrivedAt = undefined;
  }

  pongReceived(roundTrip: number): void {
    addSample(this.#roundTrips, roundTrip);
  }

  /** @param timestamp Unix time of the prices */
  pricesReceived(timestamp: number, now: number, intervalMs: number): void {
    this.#arrivedAt = now;
    if (this.#isSnapshotNext) {
      this.#isSnapshotNext = false;
      return;
    }
    if (this.#previousTickAt !== undefined) addSample(this.#gaps, now - this.#previousTickAt);
    if (this.#previousTimestamp !== undefined)
      this.#missedTicks += missedTicks(timestamp - this.#previousTimestamp, intervalMs);
    this.#previousTickAt = now;
    this.#previousTimestamp = timestamp;
  }

  readings(now: number, intervalMs: number): Readings {
    const { length: count } = this.#roundTrips;
    const deviations = this.#gaps.map((gap) => Math.abs(gap - intervalMs));
    return {
      roundTrip:
        count === 0
          ? undefined
          : { p50: percentile(this.#roundTrips, 0.5), p95: percentile(this.#roundTrips, 0.95), count },
      tickAge: this.#arrivedAt === undefined ? undefined : now - this.#arrivedAt,
      jitter: deviations.length === 0 ? undefined : deviations.reduce((sum, each) => sum + each, 0) / deviations.length,
      missedTicks: this.#missedTicks,
      reconnects: Math.max(0, this.#connections - 1),
      lastClose: this.#lastClose,
    };
  }
}

/** Returns the minimum number of ticks missed between prices whose whole-second timestamps differ by `gapSeconds`. */
export function missedTicks(gapSeconds: number, intervalMs: number): number {
  const seconds = Math.round(intervalMs / 1000);
  const isWhole = seconds > 0 && Math.abs(intervalMs - seconds * 1000) <= WHOLE_SECONDS_TOLERANCE * intervalMs;
  const missed = isWhole ? Math.round(gapSeconds / seconds) - 1 : Math.floor(((gapSeconds - 1) * 1000) / intervalMs);
  return Math.max(0, missed);
}

function addSample(samples: number[], sample: number): void {
  samples.push(sample);
  if (samples.length > MAX_SAMPLES) samples.shift();
}

function percentile(samples: readonly number[], share: number): number {
  return samples.toSorted((a, b) => a - b)[Math.ceil(share * samples.length) - 1] as number;
}
