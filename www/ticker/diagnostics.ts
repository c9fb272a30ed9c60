const MAX_SAMPLES = 100;

/** Measurements of the connection to the service. Undefined values are not known yet. */
export interface Readings {
  roundTrip: { p50: number; p95: number; count: number } | undefined;
  /** Milliseconds since the newest prices arrived. */
  tickAge: number | undefined;
  /** Mean deviation of the time between two ticks from the tick interval, in milliseconds. */
  jitter: number | undefined;
  missedTicks: number;
  /** Whether more ticks were missed, as by a restart of the service. */
  hasMissedMore: boolean;
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
  #hasMissedMore = false;
  #openedAt = 0;
  #arrivedAt: number | undefined;
  #previousTickAt: number | undefined;

  /** Records a new connection. */
  opened(now: number): void {
    this.#connections++;
    this.#openedAt = now;
    this.#previousTickAt = undefined;
  }

  /** @param at milliseconds since the epoch */
  closed(code: number, at: number): void {
    this.#lastClose = { code, at };
  }

  signedOut(): void {
    this.#arrivedAt = undefined;
  }

  pongReceived(roundTrip: number): void {
    addSample(this.#roundTrips, roundTrip);
  }

  /** @param missed number of ticks before this one that were lost */
  tickReceived(missed: number, now: number, intervalMs: number): void {
    this.#arrivedAt = now;
    if (missed === Number.POSITIVE_INFINITY) this.#hasMissedMore = true;
    else this.#missedTicks += missed;
    // The first interval of a connection has a snapshot, or many resumed ticks at once.
    if (now - this.#openedAt < intervalMs) return;
    if (this.#previousTickAt !== undefined) addSample(this.#gaps, now - this.#previousTickAt);
    this.#previousTickAt = now;
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
      hasMissedMore: this.#hasMissedMore,
      reconnects: Math.max(0, this.#connections - 1),
      lastClose: this.#lastClose,
    };
  }
}

function addSample(samples: number[], sample: number): void {
  samples.push(sample);
  if (samples.length > MAX_SAMPLES) samples.shift();
}

function percentile(samples: readonly number[], share: number): number {
  return samples.toSorted((a, b) => a - b)[Math.ceil(share * samples.length) - 1] as number;
}
