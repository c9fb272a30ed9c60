import { signal } from '@preact/signals';
import { ClosedError } from '../client/errors.ts';

export interface Frame {
  /** Sequence number, 1 for the first frame since the page was opened. */
  number: number;
  /** Time at which the page received the frame, in milliseconds since the epoch. */
  at: number;
  /** Size of the whole payload, of which `text` may contain only the first part. */
  bytes: number;
  text: string;
}

const MAX_SAMPLES = 100;
const MAX_FRAMES = 50;
export const MAX_CHARACTERS = 16_384;

/** Close code that browsers report for a lost or refused connection. */
const LOST_CODE = 1006;
/** Meanings of the close codes without a reason, which WebSocket libraries send and browsers generate. */
export const CLOSE_WORDS: Readonly<Record<number, string>> = {
  1000: 'closed normally',
  1001: 'server is shutting down',
  1002: 'protocol error',
  1005: 'closed without a code',
  [LOST_CODE]: 'connection lost or refused',
  1007: 'text was not valid UTF-8',
  1008: 'too many fragments or packets',
  1009: 'message too big',
  1011: 'handler failed',
};

const encoder = new TextEncoder();

/** Measures the connection since the page was opened. Times are milliseconds of a monotonic clock, but `at` since the epoch. */
export class Diagnostics {
  /** The newest {@link MAX_FRAMES} frames, newest first. Older frames are evicted. */
  readonly frames = signal<readonly Frame[]>([]);
  #frameCount = 0;
  readonly #roundTrips: number[] = [];
  readonly #gaps: number[] = [];
  #connections = 0;
  #missedTicks = 0;
  #hasMissedMore = false;
  #lastClose: { text: string; at: number } | undefined;
  #openedAt = 0;
  #arrivedAt: number | undefined;
  #previousTickAt: number | undefined;

  opened(now: number): void {
    this.#connections++;
    this.#openedAt = now;
    this.#previousTickAt = undefined;
  }

  /** Records the end of a connection, as `4001: token revoked`, for example. */
  closed(error: Error, at: number): void {
    const code = error instanceof ClosedError ? error.code : LOST_CODE;
    this.#lastClose = { text: `${code}: ${CLOSE_WORDS[code] ?? error.message}`, at };
  }

  signedOut(): void {
    this.#arrivedAt = undefined;
  }

  frameReceived(text: string, at: number): void {
    const { length: bytes } = encoder.encode(text);
    const frame = { number: ++this.#frameCount, at, bytes, text: text.slice(0, MAX_CHARACTERS) };
    this.frames.value = [frame, ...this.frames.peek()].slice(0, MAX_FRAMES);
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

  /** Returns the measurements. Undefined values are not known yet. */
  readings(now: number, intervalMs: number) {
    const [p50, p95] = [0.5, 0.95].map((share) => percentile(this.#roundTrips, share));
    const deviations = this.#gaps.map((gap) => Math.abs(gap - intervalMs));
    return {
      roundTrip: p50 === undefined || p95 === undefined ? undefined : { p50, p95 },
      /** Milliseconds since the newest prices arrived. */
      tickAge: this.#arrivedAt === undefined ? undefined : now - this.#arrivedAt,
      /** Mean deviation of the time between two ticks from the tick interval, in milliseconds. */
      jitter: deviations.length === 0 ? undefined : deviations.reduce((sum, each) => sum + each, 0) / deviations.length,
      missedTicks: this.#missedTicks,
      /** Whether more ticks were missed, as by a restart of the service. */
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

function percentile(samples: readonly number[], share: number): number | undefined {
  return samples.toSorted((a, b) => a - b)[Math.ceil(share * samples.length) - 1];
}
