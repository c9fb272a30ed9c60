import { formatMoment } from './durations.ts';
import type { Health } from './health.ts';

export interface Notice {
  kind: 'stalled' | 'paused' | 'full' | 'module';
  problem: string;
  advice: string;
}

/** Advice for a stalled queue. The first pattern that matches the reason counts. */
const ADVICE: readonly [RegExp, string][] = [
  [/thread/, 'Look for the threads’ errors in the service’s log, and restart it once their cause is fixed.'],
  [/PostgreSQL/, 'Check the PostgreSQL server, and the network between it and this node.'],
  [
    /disk|space|full|stor|row|writ|database|locked|\.db/i,
    'Check the free space and the permissions of DATA_DIR, or the database server.',
  ],
];

const whole = new Intl.NumberFormat('en-US');

/** Returns the problems of the queue, most urgent first. @param origin origin of the service's URL */
export function noticesOf({ stalled, paused, full, moduleProblem, ...health }: Health, origin: string): Notice[] {
  const notices: Notice[] = [];
  if (stalled !== null) {
    const [, advice] = ADVICE.find(([word]) => word.test(stalled.reason)) ?? [];
    notices.push({
      kind: 'stalled',
      problem: `No task can be processed since ${formatMoment(stalled.since)}: ${stalled.reason}.`,
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
  if (full) notices.push({ kind: 'full', ...describeFull(health, paused || stalled !== null) });
  if (moduleProblem !== undefined) {
    const advice = 'The previous module keeps running. The changed one is loaded again when a file changes.';
    notices.push({ kind: 'module', problem: `${moduleProblem}.`, advice });
  }
  return notices;
}

function describeFull(health: Omit<Health, 'full' | 'paused' | 'stalled'>, isHeld: boolean) {
  const { length, bytes, limits } = health;
  const isLong = length >= limits.length;
  const used = isLong
    ? `${whole.format(length)} of ${whole.format(limits.length)} tasks`
    : `${formatMegabytes(bytes)} of ${formatMegabytes(limits.bytes)}`;
  const problem = `The queue is full: ${used}.`;
  if (isHeld) return { problem, advice: 'New tasks are refused until tasks are processed again.' };
  return {
    problem,
    advice: `New tasks are refused until others are done. Slow down the clients, add task threads, or raise ${isLong ? 'QUEUE_MAX_LENGTH' : 'QUEUE_MAX_BYTES'}.`,
  };
}

function formatMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}
