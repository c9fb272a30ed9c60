import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

export type TickReport = ReturnType<TickRecord['report']>;

export interface Follower {
  last: number | 'awaits snapshot' | 'awaits tick';
}

interface Tick {
  payload: Buffer;
  /** Number of the tick, from 1. A tick of the time before the record was started over has the number 0. */
  number: number;
  second: number;
  dueMs: number;
  firstMs: number;
  lastMs: number;
}

const BUCKETS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, Number.POSITIVE_INFINITY];
const TICKER = Buffer.from('{"type":"ticker"');

/** Records which client received which tick, and when. Server and clients must share a clock. */
export class TickRecord {
  readonly #intervalMs: number | undefined;
  #ticks = new Map<string, Tick>();
  #newest: Tick | undefined;
  /** Number of price frames received, without initial snapshots. */
  received = 0;
  /** Number of ticks that another client received, and a client missed between two that it received. */
  missed = 0;
  readonly #lateness: RecordableHistogram = createHistogram();
  readonly #frames = BUCKETS_MS.map(() => 0);

  /** @param intervalMs interval at whose multiples ticks are due. Without it, a tick is due at its timestamp's second. */
  constructor(intervalMs?: number) {
    this.#intervalMs = intervalMs;
  }

  get ticks(): number {
    return this.#newest?.number ?? 0;
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
    const tick = this.#newest?.payload.equals(payload) ? this.#newest : this.#tickOf(payload, now);
    if (typeof follower.last === 'number') this.missed += Math.max(0, tick.number - follower.last - 1);
    follower.last = tick.number;
    if (tick.number === 0) return;
    this.received += 1;
    tick.lastMs = now;
    const lateness = Math.max(0, now - tick.dueMs);
    this.#lateness.record(Math.max(1, Math.round(lateness * 1000)));
    const bucket = BUCKETS_MS.findIndex((atMost) => lateness <= atMost);
    this.#frames[bucket] = (this.#frames[bucket] ?? 0) + 1;
  }

  /** Returns how many of the newest ticks a client has not received yet, which `missed` does not include. */
  behind({ last }: Follower): number {
    return this.ticks - (typeof last === 'number' ? last : 0);
  }

  startOver(): void {
    if (this.#newest !== undefined) this.#newest.number = 0;
    this.#ticks = new Map(this.#newest && [[this.#newest.payload.toString('latin1'), this.#newest]]);
    this.received = 0;
    this.missed = 0;
    this.#lateness.reset();
    this.#frames.fill(0);
  }

  /** Returns the measurements of the ticks that the clients have received. Times are in milliseconds. */
  report() {
    const ticks = [...this.#ticks.values()].filter(({ number }) => number > 0);
    const skew = createHistogram();
    for (const { firstMs, lastMs } of ticks) skew.record(Math.max(1, Math.round((lastMs - firstMs) * 1000)));
    return {
      ...{ received: this.received, missed: this.missed },
      ticks: ticks.length,
      timestamps: ticks.map(({ second }) => second),
      /** Time from the first client to the last within a tick; percentiles over the ticks. */
      skew: percentiles(skew),
      /** Time from a tick's due time to its arrival; percentiles over all frames. */
      lateness: percentiles(this.#lateness),
      /** Number of frames per lateness bucket, with the bucket's upper bound in milliseconds. */
      histogram: BUCKETS_MS.map((atMost, index) => ({ atMost, frames: this.#frames[index] ?? 0 })),
    };
  }

  /** Returns a tick that is not the newest one: an older one, which some clients receive later, or a new one. */
  #tickOf(payload: Buffer, now: number): Tick {
    const text = payload.toString('latin1');
    const known = this.#ticks.get(text);
    if (known !== undefined) return known;
    const second = Number(/"timestamp":(\d+)/.exec(text)?.[1] ?? 0);
    const number = this.ticks + 1;
    const dueMs = this.#dueMs(second * 1000, now);
    this.#newest = { payload: Buffer.from(payload), number, second, dueMs, firstMs: now, lastMs: now };
    this.#ticks.set(text, this.#newest);
    return this.#newest;
  }

  /** Returns the due time of a new tick. After a skipped tick, the rest of that second's ticks count as late. */
  #dueMs(secondMs: number, now: number): number {
    if (this.#intervalMs === undefined) return secondMs;
    const latest = Math.floor(now / this.#intervalMs) * this.#intervalMs;
    if (this.#newest === undefined) return latest;
    return Math.min(Math.max(this.#newest.dueMs + this.#intervalMs, secondMs), latest);
  }
}

function percentiles(histogram: RecordableHistogram) {
  const ms = (microseconds: number) => (histogram.count === 0 ? 0 : microseconds / 1000);
  return { p50: ms(histogram.percentile(50)), p99: ms(histogram.percentile(99)), max: ms(histogram.max) };
}
