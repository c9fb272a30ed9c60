import { formatSpan } from './amounts.ts';
import type { BoardTask } from './board-task.ts';
import { readOutput } from './json-text.ts';
import type { TaskProgress, TaskState } from './tasks-api.ts';

/** State of a task queued from this page. `gone` means that the service does not know the task. */
export type OwnTaskState =
  | { status: 'queued' | 'cancelled' | 'gone' }
  | { status: 'running'; attempt: number; progress?: TaskProgress }
  | { status: 'retrying'; reason: string; nextAttemptAtMs: number }
  | { status: 'completed'; result: string | null }
  | { status: 'failed'; reason: string; permanent: boolean };

export function isUnfinished(status: OwnTaskState['status']): boolean {
  return status === 'queued' || status === 'running' || status === 'retrying';
}

export function fromResponse(state: TaskState): OwnTaskState {
  switch (state.status) {
    case 'retrying': {
      // Services of version 0.1.0 do not send `next_attempt_at_ms`.
      const { reason, next_attempt_at: second, next_attempt_at_ms: nextAttemptAtMs = second * 1000 } = state;
      return { status: 'retrying', reason, nextAttemptAtMs };
    }
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
  nextAttemptAtMs,
}: BoardTask): OwnTaskState | undefined {
  switch (state) {
    case 'queued':
    case 'cancelled':
      return { status: state };
    case 'running':
      return { status: state, attempt, ...(progress && { progress }) };
    case 'retrying':
      return reason === undefined || nextAttemptAtMs === undefined
        ? undefined
        : { status: state, reason, nextAttemptAtMs };
    default:
      return undefined;
  }
}

/** Returns the texts to show. `said` is for screen readers. */
export function describeState(state: OwnTaskState): { word: string; output: string; said: string } {
  switch (state.status) {
    case 'queued':
      return { word: 'queued', output: '', said: 'Queued' };
    case 'running':
      return { word: state.attempt > 1 ? `running, attempt ${state.attempt}` : 'running', output: '', said: 'Running' };
    case 'retrying': {
      const delayMs = state.nextAttemptAtMs - Date.now();
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
