import type { TaskLimit, TaskProgress, TaskState } from '../client/task-state.ts';
import { formatSpan } from './amounts.ts';
import type { BoardTask } from './board-task.ts';
import { readOutput } from './json-text.ts';
import { limitText } from './limits.ts';

/** State of a task queued from this page. `gone` means that the service does not know the task. */
export type OwnTaskState =
  | { status: 'queued' | 'cancelled' | 'gone' }
  | { status: 'limited'; limit?: TaskLimit | undefined }
  | { status: 'scheduled'; dueAtMs: number }
  | { status: 'running'; attempt: number; progress?: TaskProgress }
  | { status: 'retrying'; reason: string; dueAtMs: number }
  | { status: 'completed'; result: string | null }
  | { status: 'failed'; reason: string; permanent: boolean };

export function fromResponse(state: TaskState): OwnTaskState {
  switch (state.status) {
    case 'retrying': {
      // Services of version 0.1.0 do not send `next_attempt_at_ms`.
      const { reason, next_attempt_at: second, next_attempt_at_ms: dueAtMs = second * 1000 } = state;
      return { status: 'retrying', reason, dueAtMs };
    }
    case 'scheduled':
      return { status: 'scheduled', dueAtMs: state.run_at_ms };
    case 'failed':
      return { status: 'failed', reason: state.reason, permanent: state.permanent ?? false };
    default:
      return state;
  }
}

/** Returns undefined if the state of the task must be requested from the service. */
export function fromBoard({
  state,
  attempt = 1,
  progress,
  reason,
  dueAtMs,
  limit,
}: BoardTask): OwnTaskState | undefined {
  switch (state) {
    case 'queued':
    case 'cancelled':
      return { status: state };
    case 'limited':
      return { status: state, limit };
    case 'scheduled':
      return dueAtMs === undefined ? undefined : { status: state, dueAtMs };
    case 'running':
      return { status: state, attempt, ...(progress && { progress }) };
    case 'retrying':
      return reason === undefined || dueAtMs === undefined ? undefined : { status: state, reason, dueAtMs };
    default:
      return undefined;
  }
}

/** Returns the texts to show. `said` is for screen readers. */
export function describeState(state: OwnTaskState): { word: string; output: string; said: string } {
  switch (state.status) {
    case 'queued':
      return { word: 'queued', output: '', said: 'Queued' };
    case 'limited':
      return { word: 'limited', output: state.limit === undefined ? '' : limitText(state.limit), said: 'Limited' };
    case 'scheduled': {
      const delayMs = state.dueAtMs - Date.now();
      return { word: delayMs > 0 ? `due in ${formatSpan(delayMs)}` : 'due now', output: '', said: 'Scheduled' };
    }
    case 'running':
      return { word: state.attempt > 1 ? `running, attempt ${state.attempt}` : 'running', output: '', said: 'Running' };
    case 'retrying': {
      const delayMs = state.dueAtMs - Date.now();
      return {
        word: delayMs > 0 ? `again in ${formatSpan(delayMs)}` : 'again now',
        output: state.reason,
        said: 'Retrying',
      };
    }
    case 'completed':
      return { word: 'completed', output: readOutput(state.result), said: 'Completed' };
    case 'failed':
      return { word: 'failed', output: state.reason, said: 'Failed' };
    case 'cancelled':
      return { word: 'cancelled', output: '', said: 'Cancelled' };
    case 'gone':
      return { word: 'unknown', output: 'The service no longer knows this task.', said: 'Lost track of' };
  }
}
