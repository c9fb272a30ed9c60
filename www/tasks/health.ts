import type { QueueStatus } from './board-api.ts';

/** The queue's condition. */
export interface Health {
  waiting: number;
  running: number;
  retrying: number;
  /** Number of stored dead letters. */
  dead: number;
  /** Completed tasks per second, over the last ten seconds. Undefined until there are two measurements. */
  perSecond: number | undefined;
  oldestAgeSeconds: number | null;
  threads: QueueStatus['threads'];
  /** Whether the queue refuses new tasks because a limit is reached. */
  full: boolean;
  paused: boolean;
  /** Why no task can be processed, and since when (Unix seconds). */
  stalled: QueueStatus['stalled'];
  limits: QueueStatus['limits'];
  latency: QueueStatus['latency'];
  bytes: number;
}

/** Computes the queue's health from a response to `GET /queue`. */
export function healthOf(status: QueueStatus, perSecond: number | undefined): Health {
  const { waiting, in_flight: running, delayed: retrying, dead, bytes, limits } = status;
  const { oldest_age_seconds: oldestAgeSeconds, threads, paused, stalled, latency } = status;
  const full = waiting + running + retrying >= limits.length || bytes >= limits.bytes;
  return {
    ...{ waiting, running, retrying, dead, perSecond, oldestAgeSeconds, threads },
    ...{ full, paused, stalled, limits, latency, bytes },
  };
}

/** Period over which the rate is measured, in milliseconds. */
const WINDOW_MS = 10_000;

/** Rate of a counter, measured over the last ten seconds. */
export class RateMeter {
  #samples: { value: number; atMs: number }[] = [];

  /** Adds a sample. @returns the rate per second, or undefined if there is no earlier sample */
  add(value: number, atMs: number): number | undefined {
    // A lower value means that the service has restarted.
    if (value < (this.#samples.at(-1)?.value ?? 0)) this.#samples = [];
    this.#samples = [...this.#samples.filter((sample) => sample.atMs >= atMs - WINDOW_MS), { value, atMs }];
    const first = this.#samples[0] as { value: number; atMs: number };
    return atMs > first.atMs ? ((value - first.value) / (atMs - first.atMs)) * 1000 : undefined;
  }
}
