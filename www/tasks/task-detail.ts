import type { Attempt, TaskState } from '../client/task-state.ts';
import type { BoardTask } from './board-task.ts';
import { limitText } from './limits.ts';

type FieldsOf<State> = (State extends unknown ? (fields: Omit<State, 'id' | 'status'>) => void : never) extends (
  fields: infer Fields,
) => void
  ? Fields
  : never;

/** Response of `GET /tasks/<id>`, with the optional fields of all states. */
export type TaskDetail = { id: string; status: string } & Partial<FieldsOf<TaskState>>;

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
  kind:
    | 'accepted'
    | 'failed-attempt'
    | 'waiting'
    | 'scheduled'
    | 'running'
    | 'retrying'
    | 'completed'
    | 'failed'
    | 'cancelled';
  title: string;
  /** Time of the step in milliseconds since the epoch. Undefined if unknown. */
  atMs?: number | undefined;
  /** False if `atMs` is rounded to a whole second. */
  isExact?: boolean;
  /** Attempt that ended with this step. */
  run?: Attempt | undefined;
  reason?: string;
  stack?: string | undefined;
}

/** Returns the steps of a task, oldest first. @param known task from events, whose times have milliseconds */
export function timelineOf(detail: TaskDetail, known: BoardTask | undefined): Step[] {
  const { history = [], status } = detail;
  const failed = attemptsBefore(detail);
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

function attemptsBefore({ status, attempt, attempts, history = [] }: TaskDetail): number {
  return (status === 'running' && attempt !== undefined ? attempt - 1 : attempts) ?? history.length;
}

function lastStep(detail: TaskDetail, known: BoardTask | undefined): Step | undefined {
  const { status, attempt = 1, started_at_ms, next_attempt_at_ms, next_attempt_at = 0, reason = '', limit } = detail;
  const lastAttempt = detail.history?.at(-1);
  switch (status) {
    case 'queued':
      return { kind: 'waiting', title: `Waiting for a free thread${withPriority(detail)}` };
    case 'limited':
      return {
        kind: 'waiting',
        title: `Waiting for ${limit === undefined ? 'a limit' : `the limit of ${limitText(limit)}`}`,
      };
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
      const { attempts = 1 } = detail;
      return {
        kind: 'completed',
        title: attempts > 1 ? `Completed by attempt ${attempts}` : 'Completed',
        ...(end ?? endedAt(detail.processed_at, known)),
      };
    }
    case 'failed': {
      const title = detail.permanent ? 'Failed permanently' : 'Failed, no attempts left';
      // If the task has a history, the last failed attempt already shows the reason.
      return { kind: 'failed', title, ...endedAt(detail.last_at, known), ...(lastAttempt === undefined && { reason }) };
    }
    case 'cancelled':
      return { kind: 'cancelled', title: 'Cancelled', ...endedAt(undefined, known) };
    default:
      return undefined;
  }
}

function withPriority({ priority = 3 }: TaskDetail): string {
  return priority === 3 ? '' : `, priority ${priority}`;
}

function acceptedAt({ accepted_at_ms, first_at, created_at }: TaskDetail, known: BoardTask | undefined): Partial<Step> {
  if (accepted_at_ms !== undefined) return { atMs: accepted_at_ms, isExact: true };
  const second = first_at ?? created_at;
  return exactOr(known?.acceptedAtMs, second === undefined ? undefined : second * 1_000);
}

function endedAt(second: number | null | undefined, known: BoardTask | undefined): Partial<Step> {
  return exactOr(known?.endedAtMs, second == null ? undefined : second * 1_000);
}

function exactOr(exactMs: number | undefined, secondMs: number | undefined): Partial<Step> {
  if (exactMs !== undefined && exactMs % 1_000 !== 0) return { atMs: exactMs, isExact: true };
  return { atMs: secondMs ?? exactMs, isExact: false };
}
