import type { Cause } from '../client/dead-letters.ts';
import type { QueueStatus } from '../client/queue-api.ts';
import { beginningOf, type Histories } from './queue-history.ts';
import {
  formatChange,
  formatClock,
  formatCount,
  formatMinute,
  formatRate,
  formatSize,
  formatSpan,
  visibleText,
} from './texts.ts';

export interface Problem {
  kind: 'unreachable' | 'stalled' | 'paused' | 'full' | 'filling' | 'refused' | 'failing' | 'evicted' | 'module';
  severity: 'warning' | 'critical';
  text: string;
  /** Unix time in milliseconds. */
  since?: number | undefined;
  advice?: string;
}

export interface Situation {
  /** `unknown` before the first answer, and while the service does not answer. */
  severity: 'unknown' | 'normal' | Problem['severity'];
  sentence: string;
  /** When the first of the problems began: Unix time in milliseconds. */
  since?: number | undefined;
  /** Most urgent first. */
  problems: readonly Problem[];
}

export interface Facts {
  status: QueueStatus | undefined;
  history: Histories;
  /** Causes of the recently failed tasks, most frequent first, and the number of these tasks. */
  causes: { causes: readonly Pick<Cause, 'cause' | 'count'>[]; total: number };
  link: { kind: 'connecting' | 'live' | 'offline' | 'failing' | 'signed-out'; error?: string | undefined };
  /** When the newest status arrived: Unix time in milliseconds. */
  answeredAt: number;
}

const NEARLY_FULL = 0.9;
/** Number of failures in a minute from which they are a problem, and from which they are critical. */
const FAILURES = 6;
const MANY_FAILURES = 60;
/** Share of failures in the ended tasks from which they are a problem, and from which they are critical. */
const FAILURE_SHARE = 0.05;
const LARGE_FAILURE_SHARE = 0.5;
/** A growing backlog is a problem if it reaches the limit within this number of seconds. */
const SOON = 900;
const MAX_CAUSE_LENGTH = 60;

const UNKNOWN: Situation = { severity: 'unknown', sentence: '', problems: [] };

/** Returns the problems of the queue and one sentence about them. @param origin origin of the service's URL */
export function situationOf(facts: Facts, origin: string): Situation {
  const { status, history, link, answeredAt } = facts;
  if (link.kind === 'offline' || link.kind === 'failing') {
    const reason = link.kind === 'failing' ? `The service answers: ${link.error}.` : 'The service does not answer.';
    const text = status ? `${reason} All figures are from ${formatClock(answeredAt, false)}.` : reason;
    const problems: Problem[] = [{ kind: 'unreachable', severity: 'critical', text, since: answeredAt }];
    return { severity: 'unknown', sentence: text, since: answeredAt, problems };
  }
  if (status === undefined || link.kind !== 'live') return UNKNOWN;
  const checks = [stall, pause, backlog, refusals, failures, evictions, module];
  const problems = checks.flatMap((check) => check(status, facts, origin) ?? []);
  if (problems.length === 0) return { severity: 'normal', sentence: calmSentence(history), problems };
  const severity = problems.some((problem) => problem.severity === 'critical') ? 'critical' : 'warning';
  const times = problems.flatMap(({ since }) => since ?? []);
  const since = times.length === 0 ? undefined : Math.min(...times);
  return { severity, sentence: problems.map(({ text }) => text).join(' '), since, problems };
}

export function lengthOf({ waiting, limited = 0, scheduled, in_flight, delayed }: QueueStatus): number {
  return waiting + limited + scheduled + in_flight + delayed;
}

/** Used part of the limit that is reached first, at most 1. */
export function usageOf(status: QueueStatus): number {
  return Math.min(1, Math.max(lengthOf(status) / status.limits.length, status.bytes / status.limits.bytes));
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

function stall({ stalled }: QueueStatus): Problem | undefined {
  if (stalled === null) return undefined;
  const since = stalled.since * 1_000;
  const text = `No task can be processed since ${formatMinute(since)}: ${stalled.reason}.`;
  const [, remedy = 'See the service’s log.'] = ADVICE.find(([word]) => word.test(stalled.reason)) ?? [];
  const advice = `${remedy} Accepted tasks wait, and none is lost.`;
  return { kind: 'stalled', severity: 'critical', text, since, advice };
}

function pause({ paused, paused_at_ms: since }: QueueStatus, _facts: Facts, origin: string): Problem | undefined {
  if (!paused) return undefined;
  const text = `The queue is paused${sinceText(since)}.`;
  const advice = `New tasks are accepted and wait. To go on: curl -X POST ${origin}/queue/resume`;
  return { kind: 'paused', severity: 'warning', text, since, advice };
}

function backlog(status: QueueStatus, { history }: Facts): Problem | undefined {
  const { limits, bytes, paused, stalled, refused } = status;
  const length = lengthOf(status);
  const used = usageOf(status);
  const growth = history.seconds.growth(10);
  const isByLength = length / limits.length >= Math.min(1, bytes / limits.bytes);
  const secondsLeft = isByLength && growth > 0 ? (limits.length - length) / growth : undefined;
  const isFillingSoon =
    used >= 0.5 && secondsLeft !== undefined && secondsLeft < SOON && history.seconds.growth(60) > 0;
  if (used < NEARLY_FULL && !isFillingSoon) return undefined;
  const isFull = used >= 1;
  const amount = isByLength
    ? `${formatCount(length)} of ${formatCount(limits.length)} tasks`
    : `${formatSize(bytes)} of ${formatSize(limits.bytes)}`;
  const trend = isByLength && growth !== 0 ? `, ${formatChange(growth)}` : '';
  const isForecast = secondsLeft !== undefined && !isFull && refused.per_second === 0;
  const forecast = isForecast ? `, full in ${formatSpan(secondsLeft * 1_000)}` : '';
  const threshold = Math.min(used, NEARLY_FULL) * limits.length;
  const since = isByLength ? beginningOf(history, 'depth', (depth) => depth >= threshold) : undefined;
  const start = used >= NEARLY_FULL ? sinceText(since) : '';
  const text = `${isFull ? 'The queue is full:' : 'Backlog'} ${amount}${trend}${forecast}${start}.`;
  const isHeld = paused || stalled !== null;
  const advice = isHeld
    ? 'New tasks are refused once it is full, until tasks are processed again.'
    : `Slow down the clients, add task threads, or raise ${isByLength ? 'QUEUE_MAX_LENGTH' : 'QUEUE_MAX_BYTES'}.`;
  const severity = isFull || isForecast ? 'critical' : 'warning';
  return { kind: isFull ? 'full' : 'filling', severity, text, since, advice };
}

function refusals({ refused }: QueueStatus, { history }: Facts): Problem | undefined {
  // The rate covers the last minute by the service's clock, from which the browser's may differ.
  if (refused.per_second === 0) return undefined;
  const since = beginningOf(history, 'refused', (count) => count > 0);
  const rate = frequency(refused.per_second, 'submission');
  const text = `${rate} refused${sinceText(since)}, ${formatCount(refused.total)} since the start.`;
  return { kind: 'refused', severity: 'critical', text, since, advice: 'The clients have to submit them again.' };
}

function failures(_status: QueueStatus, { history, causes: { causes, total } }: Facts): Problem | undefined {
  const { seconds } = history;
  const count = seconds.sum('failed', 60);
  const share = count / Math.max(1, count + seconds.sum('completed', 60));
  if (count < FAILURES || (count < MANY_FAILURES && share < FAILURE_SHARE)) return undefined;
  const since = beginningOf(history, 'failed', (count) => count > 0);
  const perSecond = seconds.newest('failed', 60) ?? 0;
  const change = count < 20 ? 1 : (seconds.newest('failed', 20) ?? 0) / perSecond;
  const trend = change > 1.25 ? ', rising' : change < 0.8 ? ', falling' : '';
  const [top] = causes;
  const cause = visibleText(top?.cause ?? '');
  const short = cause.length > MAX_CAUSE_LENGTH ? `${cause.slice(0, MAX_CAUSE_LENGTH)}…` : cause;
  const most =
    top === undefined || total === 0 ? '' : `, ${Math.round((100 * top.count) / total)}\u00a0% of them “${short}”`;
  const severity = count >= MANY_FAILURES || share >= LARGE_FAILURE_SHARE ? 'critical' : 'warning';
  const text = `${frequency(perSecond, 'failure')}${trend}${most}${sinceText(since)}.`;
  return { kind: 'failing', severity, text, since };
}

function evictions({ evicted, dead, limits }: QueueStatus): Problem | undefined {
  const limit = formatCount(limits.dead_letters);
  if (evicted > 0 && dead > 0) {
    const text = `${evicted === 1 ? '1 failed task was' : `${formatCount(evicted)} failed tasks were`} evicted.`;
    return { kind: 'evicted', severity: 'warning', text, advice: `Only the newest are kept, at most ${limit}.` };
  }
  if (dead < limits.dead_letters * NEARLY_FULL) return undefined;
  const text = `${formatCount(dead)} of ${limit} failed tasks are kept.`;
  return { kind: 'evicted', severity: 'warning', text, advice: 'Beyond that, the oldest are evicted.' };
}

function module({ module_problem: problem }: QueueStatus): Problem | undefined {
  if (problem === undefined) return undefined;
  const advice = 'The previous module keeps running. The changed one is loaded again when a file changes.';
  return { kind: 'module', severity: 'warning', text: `${problem}.`, advice };
}

function calmSentence({ seconds }: Histories): string {
  const completed = seconds.newest('completed', 10);
  if (completed === null) return 'No problems.';
  const failed = seconds.sum('failed', 900);
  const failures = failed === 0 ? 'no failure' : `${formatCount(failed)} ${failed === 1 ? 'failure' : 'failures'}`;
  return `No problems: ${formatRate(completed)} tasks completed a second, ${failures} in the last 15 min.`;
}

/** Formats a rate as `5 failures a second`, or if it is below that as `12 failures a minute`. */
function frequency(perSecond: number, noun: string): string {
  const isFast = perSecond >= 1;
  const rate = isFast ? perSecond : Math.max(1, Math.round(perSecond * 60));
  const amount = formatRate(rate).replace('.0', '');
  return `${amount} ${noun}${amount === '1' ? '' : 's'} a ${isFast ? 'second' : 'minute'}`;
}

const sinceText = (atMs: number | undefined) => (atMs === undefined ? '' : `, since ${formatMinute(atMs)}`);
