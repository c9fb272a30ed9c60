import type { QueueStatus } from '../client/queue-api.ts';

export interface Health {
  waiting: number;
  running: number;
  retrying: number;
  /** Number of all unfinished tasks, which the limit counts. */
  length: number;
  dead: number;
  /** Completed tasks per second over the last ten seconds. Undefined before the second measurement. */
  perSecond: number | undefined;
  oldestAgeSeconds: number | null;
  threads: QueueStatus['threads'];
  full: boolean;
  paused: boolean;
  /** When the queue was paused. */
  pausedAtMs?: number | undefined;
  stalled: QueueStatus['stalled'];
  moduleProblem?: string | undefined;
  limits: QueueStatus['limits'];
  latency: QueueStatus['latency'];
  bytes: number;
}

/** @param perSecond completed tasks per second, if known */
export function healthOf(status: QueueStatus & { paused_at_ms?: number }, perSecond: number | undefined): Health {
  const { waiting, limited = 0, in_flight: running, delayed: retrying, dead, bytes, limits } = status;
  const { oldest_age_seconds: oldestAgeSeconds, threads, paused, stalled, latency } = status;
  const { module_problem: moduleProblem, paused_at_ms: pausedAtMs } = status;
  const length = waiting + limited + status.scheduled + running + retrying;
  const full = length >= limits.length || bytes >= limits.bytes;
  return {
    ...{ waiting, running, retrying, length, dead, perSecond, oldestAgeSeconds, threads },
    ...{ full, paused, stalled, moduleProblem, limits, latency, bytes, pausedAtMs },
  };
}

const WINDOW_MS = 10_000;

/** Rate of a counter over the last ten seconds. */
export class RateMeter {
  #samples: { value: number; atMs: number }[] = [];

  /** Adds the counter's current value. @returns its increase per second, or undefined without an earlier value */
  add(value: number, atMs: number): number | undefined {
    // A counter that has decreased was reset by a restart of the service.
    if (value < (this.#samples.at(-1)?.value ?? 0)) this.#samples = [];
    this.#samples = [...this.#samples.filter((sample) => sample.atMs >= atMs - WINDOW_MS), { value, atMs }];
    const first = this.#samples[0] as { value: number; atMs: number };
    return atMs > first.atMs ? ((value - first.value) / (atMs - first.atMs)) * 1000 : undefined;
  }
}
