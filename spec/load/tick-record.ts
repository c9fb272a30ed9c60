import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

/** Measurements of the ticks received by many clients. Times are in milliseconds. */
export interface TickReport {
  /** Number of price frames received, without initial snapshots. */
  received: number;
  /**
   * Ticks that a client missed although it was connected before and after, and another client received. The newest
   * tick is not counted.
   */
  missed: number;
  /** Number of distinct ticks. */
  ticks: number;
  /** Time from the first client to the last within a tick; percentiles over the ticks. */
  skew: Percentiles;
  /** Time from a tick's timestamp to its arrival; percentiles over all frames. */
  lateness: Percentiles;
  /** Number of frames per lateness bucket, with the bucket's upper bound in milliseconds. */
  histogram: Array<{ atMost: number; frames: number }>;
}

export interface Percentiles {
  p50: number;
  p99: number;
  max: number;
}

/** A client's position among the ticks. */
export interface Follower {
  /** Number of the client's newest tick. */
  last: number | 'awaits snapshot' | 'awaits tick';
}

const BUCKETS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, Number.POSITIVE_INFINITY];
const TICKER = Buffer.from('{"type":"ticker"');

/**
 * Records which client received which tick and when. A tick has the same bytes for all clients, so its text is parsed
 * once. Server and clients must share a clock.
 */
export class TickRecord {
  #payload = Buffer.alloc(0);
  #number = 0;
  #stamp = 0;
  #first = 0;
  #latest = 0;
  #received = 0;
  #missed = 0;
  readonly #skew: RecordableHistogram = createHistogram();
  readonly #lateness: RecordableHistogram = createHistogram();
  readonly #frames = BUCKETS_MS.map(() => 0);

  get received(): number {
    return this.#received;
  }

  get missed(): number {
    return this.#missed;
  }

  get ticks(): number {
    return this.#number;
  }

  /** @param now milliseconds since the epoch, with fractions */
  note(follower: Follower, payload: Buffer, now: number): void {
    // `compare` throws on a range beyond the end of the payload.
    if (payload.length < TICKER.length || payload.compare(TICKER, 0, TICKER.length, 0, TICKER.length) !== 0) return;
    if (follower.last === 'awaits snapshot') {
      // The snapshot repeats the latest tick with its own timestamp.
      follower.last = 'awaits tick';
      return;
    }
    if (!this.#payload.equals(payload)) this.#begin(payload, now);
    this.#received += 1;
    this.#latest = now;
    if (typeof follower.last === 'number') this.#missed += Math.max(0, this.#number - follower.last - 1);
    follower.last = this.#number;
    const lateness = Math.max(0, now - this.#stamp);
    this.#lateness.record(Math.max(1, Math.round(lateness * 1000)));
    const bucket = BUCKETS_MS.findIndex((atMost) => lateness <= atMost);
    this.#frames[bucket] = (this.#frames[bucket] ?? 0) + 1;
  }

  /**
   * Returns how many of the newest ticks a client has not received yet. The report's `missed` does not include them.
   */
  behind({ last }: Follower): number {
    return typeof last === 'number' ? this.#number - last : this.#number;
  }

  report(): TickReport {
    this.#endTick();
    return {
      received: this.#received,
      missed: this.#missed,
      ticks: this.#number,
      skew: percentiles(this.#skew),
      lateness: percentiles(this.#lateness),
      histogram: BUCKETS_MS.map((atMost, index) => ({ atMost, frames: this.#frames[index] ?? 0 })),
    };
  }

  #begin(payload: Buffer, now: number): void {
    this.#endTick();
    this.#payload = Buffer.from(payload);
    this.#number += 1;
    this.#stamp = Number(/"timestamp":(\d+)/.exec(payload.toString())?.[1] ?? 0) * 1000;
    this.#first = now;
  }

  #endTick(): void {
    if (this.#number > 0) this.#skew.record(Math.max(1, Math.round((this.#latest - this.#first) * 1000)));
  }
}

function percentiles(histogram: RecordableHistogram): Percentiles {
  const ms = (microseconds: number) => (histogram.count === 0 ? 0 : microseconds / 1000);
  return { p50: ms(histogram.percentile(50)), p99: ms(histogram.percentile(99)), max: ms(histogram.max) };
}
