import type { QueueStatus } from '../client/queue-api.ts';
import { formatClock, formatCount, formatRate } from './amounts.ts';

export interface Health {
  waiting: number;
  /** Number of tasks whose attempt has started. */
  running: number;
  /** Number of tasks that a node has taken and not started yet. */
  next: number;
  retrying: number;
  /** Number of all unfinished tasks, which the limit counts. */
  length: number;
  dead: number;
  evicted: number;
  refused: QueueStatus['refused'];
  /** Completed tasks per second over the last ten seconds. Undefined before the second measurement. */
  perSecond: number | undefined;
  oldestAgeSeconds: number | null;
  threads: QueueStatus['threads'];
  /** Used part of the limit that is reached first, at most 1. */
  used: number;
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
  const { waiting, limited = 0, in_flight, running, delayed: retrying, bytes, limits } = status;
  const { dead, evicted, refused } = status;
  const { oldest_age_seconds: oldestAgeSeconds, threads, paused, stalled, latency } = status;
  const { module_problem: moduleProblem, paused_at_ms: pausedAtMs } = status;
  const length = waiting + limited + status.scheduled + in_flight + retrying;
  const used = Math.min(1, Math.max(length / limits.length, bytes / limits.bytes));
  return {
    ...{ waiting, running, next: in_flight - running, retrying, length, dead, evicted, refused, perSecond },
    ...{ oldestAgeSeconds, threads, used, full: used >= 1, paused, stalled, moduleProblem, limits, latency, bytes },
    pausedAtMs,
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

export interface Notice {
  kind: 'stalled' | 'paused' | 'full' | 'filling' | 'refused' | 'module';
  problem: string;
  advice: string;
}

const NEARLY_FULL = 0.9;

/** Advice for a stalled queue. The first pattern that matches the reason counts. */
const ADVICE: readonly [RegExp, string][] = [
  [/thread/, 'Look for the threads’ errors in the service’s log, and restart it once their cause is fixed.'],
  [/PostgreSQL/, 'Check the PostgreSQL server, and the network between it and this node.'],
  [
    /disk|space|full|stor|row|writ|database|locked|\.db/i,
    'Check the free space and the permissions of DATA_DIR, or the database server.',
  ],
];

/** Returns the problems of the queue, most urgent first. @param origin origin of the service's URL */
export function noticesOf(
  { stalled, paused, full, refused, moduleProblem, ...health }: Health,
  origin: string,
): Notice[] {
  const notices: Notice[] = [];
  if (stalled !== null) {
    const [, advice] = ADVICE.find(([word]) => word.test(stalled.reason)) ?? [];
    notices.push({
      kind: 'stalled',
      problem: `No task can be processed since ${formatClock(stalled.since * 1000, false)}: ${stalled.reason}.`,
      advice: `${advice ?? 'See the service’s log.'} Accepted tasks wait, and none is lost.`,
    });
  }
  if (paused) {
    notices.push({
      kind: 'paused',
      problem: 'The queue is paused.',
      advice: `New tasks are accepted and wait. To go on: curl -X POST ${origin}/queue/resume`,
    });
  }
  if (health.used >= NEARLY_FULL) {
    notices.push({ kind: full ? 'full' : 'filling', ...describeFull(health, paused || stalled !== null) });
  }
  // The rate covers the last minute by the service's clock, from which the browser's may differ.
  if (refused.per_second > 0) {
    notices.push({
      kind: 'refused',
      problem: `The queue was full: ${formatCount(refused.total)} submissions refused since the start, ${refused.per_second < 0.1 ? 'under 0.1' : formatRate(refused.per_second)} a second in the last minute.`,
      advice: 'The clients have to submit them again.',
    });
  }
  if (moduleProblem !== undefined) {
    const advice = 'The previous module keeps running. The changed one is loaded again when a file changes.';
    notices.push({ kind: 'module', problem: `${moduleProblem}.`, advice });
  }
  return notices;
}

function describeFull(health: Pick<Health, 'length' | 'bytes' | 'limits' | 'used'>, isHeld: boolean) {
  const { length, bytes, limits, used } = health;
  const isLong = length / limits.length >= Math.min(1, bytes / limits.bytes);
  const amount = isLong
    ? `${formatCount(length)} of ${formatCount(limits.length)} tasks`
    : `${formatMegabytes(bytes)} of ${formatMegabytes(limits.bytes)}`;
  const isFull = used >= 1;
  const problem = `The queue is ${isFull ? '' : `${Math.floor(used * 100)} % `}full: ${amount}.`;
  const until = `New tasks are refused ${isFull ? 'until' : 'once it is full, until'}`;
  if (isHeld) return { problem, advice: `${until} tasks are processed again.` };
  return {
    problem,
    advice: `${until} others are done. Slow down the clients, add task threads, or raise ${isLong ? 'QUEUE_MAX_LENGTH' : 'QUEUE_MAX_BYTES'}.`,
  };
}

function formatMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}
