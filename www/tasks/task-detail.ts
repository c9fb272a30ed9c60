import type { Attempt, TaskLimit, TaskState } from '../client/task-state.ts';
import { addressOf } from './address.ts';
import type { BoardTask, TaskFields } from './board-task.ts';
import type { Submission } from './service.ts';
import { formatClock, formatCount, formatSpan } from './texts.ts';

/** Response of `GET /tasks/<id>`, with the optional fields of all states. */
export type TaskDetail = { id: string; status: string } & TaskFields;

export const NORMAL_PRIORITY = 3;
const UNKNOWN =
  'No task has this id. It may have been cancelled or purged, or removed because of a limit on stored tasks.';
const PERMANENT =
  'This error is permanent: after a redrive the task fails again, unless the cause is fixed. Or edit and resubmit it.';

/** Returns an explanation of the task's state, or an empty string. */
export function noteOf({ status, permanent }: TaskDetail): string {
  if (status === 'unknown') return UNKNOWN;
  return status === 'failed' && permanent ? PERMANENT : '';
}

export interface Step {
  kind: TaskState['status'] | 'accepted' | 'failed-attempt' | 'waiting' | 'cancelled';
  title: string;
  atMs?: number | undefined;
  /** False if `atMs` is rounded to a whole second. */
  isExact?: boolean;
  run?: Attempt | undefined;
  reason?: string;
  stack?: string | undefined;
}

/** Returns the steps of a task, oldest first. @param known task from events, whose times have milliseconds */
export function timelineOf(detail: TaskDetail, known: BoardTask | undefined): Step[] {
  const { history = [], status, attempt, attempts } = detail;
  const failed = (status === 'running' && attempt !== undefined ? attempt - 1 : attempts) ?? history.length;
  const hidden = failed - history.length;
  const steps: Step[] = [{ kind: 'accepted', title: 'Accepted', ...acceptedAt(detail, known) }];
  if (hidden > 0 && (status !== 'completed' || history.length > 0)) {
    steps.push({ kind: 'failed-attempt', title: hidden === 1 ? '1 earlier attempt' : `${hidden} earlier attempts` });
  }
  for (const [index, run] of history.entries()) {
    const { ended_at_ms: atMs, reason, stack } = run;
    if (reason === null) continue;
    const title = `Attempt ${Math.max(hidden, 0) + index + 1} failed`;
    steps.push({ kind: 'failed-attempt', title, atMs, isExact: true, run, reason, stack });
  }
  const last = lastStep(detail, known);
  return last === undefined ? steps : [...steps, last];
}

function lastStep(detail: TaskDetail, known: BoardTask | undefined): Step | undefined {
  const { status, attempt = 1, attempts = 1, started_at_ms, next_attempt_at_ms, next_attempt_at = 0 } = detail;
  const { reason = '', limit } = detail;
  const lastAttempt = detail.history?.at(-1);
  switch (status) {
    case 'queued':
      return { kind: 'waiting', title: `Waiting for a free thread${withPriority(detail)}` };
    case 'limited': {
      const cause = limit === undefined ? 'a limit' : `the limit of ${limitText(limit)}`;
      return { kind: 'waiting', title: `Waiting for ${cause}` };
    }
    case 'scheduled':
      return { kind: 'scheduled', title: `Due${withPriority(detail)}`, atMs: detail.run_at_ms, isExact: true };
    case 'running':
      return { kind: 'running', title: `Attempt ${attempt} started`, atMs: started_at_ms, isExact: true };
    case 'retrying': {
      const atMs = next_attempt_at_ms ?? next_attempt_at * 1_000;
      return { kind: 'retrying', title: 'Next attempt', atMs, isExact: next_attempt_at_ms !== undefined };
    }
    case 'completed': {
      const end = lastAttempt && { atMs: lastAttempt.ended_at_ms, isExact: true, run: lastAttempt };
      const title = attempts > 1 ? `Completed by attempt ${attempts}` : 'Completed';
      return { kind: 'completed', title, ...(end ?? exactOr(known?.ended_at_ms, detail.processed_at)) };
    }
    case 'failed': {
      const title = detail.permanent ? 'Failed permanently' : 'Failed, no attempts left';
      // If the task has a history, the last failed attempt already shows the reason.
      const own = lastAttempt === undefined ? { reason } : {};
      return { kind: 'failed', title, ...exactOr(known?.ended_at_ms, detail.last_at), ...own };
    }
    case 'cancelled':
      return { kind: 'cancelled', title: 'Cancelled', ...exactOr(known?.ended_at_ms) };
    default:
      return undefined;
  }
}

function withPriority({ priority = NORMAL_PRIORITY }: TaskDetail): string {
  return priority === NORMAL_PRIORITY ? '' : `, priority ${priority}`;
}

function acceptedAt({ accepted_at_ms, first_at, created_at }: TaskDetail, known: BoardTask | undefined): Partial<Step> {
  if (accepted_at_ms !== undefined) return { atMs: accepted_at_ms, isExact: true };
  return exactOr(known?.accepted_at_ms, first_at ?? created_at);
}

function exactOr(exactMs: number | undefined, second?: number | null): Partial<Step> {
  if (exactMs !== undefined && exactMs % 1_000 !== 0) return { atMs: exactMs, isExact: true };
  return { atMs: second == null ? exactMs : second * 1_000, isExact: false };
}

/** Characters of a key that are shown, so that what follows is visible. */
const MAX_KEY_LENGTH = 32;

/** Says why a task waits for a limit: `acme: 5 of 5 running` or `acme: next start 14:03:05`. */
export function limitText({ action, key = action, concurrency, running, next_start_at_ms: nextMs }: TaskLimit): string {
  const name = key.length > MAX_KEY_LENGTH ? `${key.slice(0, MAX_KEY_LENGTH)}…` : key;
  if (nextMs !== undefined) return `${name}: next start ${formatClock(nextMs, false)}`;
  if (concurrency === undefined) return name;
  // A task that waits to be started holds its place already.
  const rest = running < concurrency ? ', the rest reserved' : '';
  return `${name}: ${formatCount(running)} of ${formatCount(concurrency)} running${rest}`;
}

/** Term with its value, which may be a link within the page and a text after it. */
export interface Fact {
  term: string;
  text: string;
  address?: string;
  rest?: string;
}

/** Returns how often and how long a task ran, the options of its submission and, for a callback, the task that it reports. */
export function factsOf(detail: TaskDetail, submission: Submission | undefined): Fact[] {
  const { id, priority = NORMAL_PRIORITY, limit_key, schedule, callback_url } = detail;
  const q = submission?.action ?? '';
  const facts = [
    { term: 'Duration', text: durationText(detail) },
    { term: 'Priority', text: priority === NORMAL_PRIORITY ? undefined : `${priority}` },
    { term: 'Limit key', text: limit_key, address: addressOf({ page: 'limits', q }) },
    { term: 'Schedule', text: schedule, address: addressOf({ page: 'schedules', q: schedule ?? '' }) },
    { term: 'Callback', text: callback_url, address: addressOf({ action: 'callback', q: id }) },
    ...(submission?.action === 'callback' ? callbackFacts(detail, submission) : []),
  ];
  return facts.filter((fact): fact is Fact => fact.text !== undefined);
}

function durationText({ attempts = 1, waited_ms, ran_ms }: TaskDetail): string | undefined {
  if (ran_ms === undefined) return undefined;
  const waited = waited_ms == null ? '' : `waited ${formatSpan(waited_ms)}, `;
  return `${waited}ran ${formatSpan(ran_ms)}${attempts === 1 ? '' : ` in ${attempts} attempts`}`;
}

function callbackFacts({ reason, result }: TaskDetail, { data }: Submission) {
  const { url, task } = data ?? {};
  if (typeof url !== 'string' || typeof task !== 'string') return [];
  const { status, answer = '' } = JSON.parse(result ?? '{}').output ?? {};
  return [
    { term: 'Callback for', text: task, address: addressOf({ task }), rest: ` to ${url}` },
    { term: 'Last answer', text: reason ?? (status === undefined ? undefined : `${status} ${answer}`.trim()) },
  ];
}
