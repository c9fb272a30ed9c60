import { readOutput } from './json-text.ts';
import type { TaskState } from './tasks-api.ts';

/** State of a task queued from this page. A `gone` task is unknown to the service. */
export type OwnTaskState = TaskState | { status: 'cancelled' } | { status: 'gone' };

/** Whether a task with this status is still unfinished. */
export function isUnfinished(status: OwnTaskState['status']): boolean {
  return status === 'queued' || status === 'running' || status === 'retrying';
}

/** Returns the text for a task's state, the output or failure reason, and the announcement for screen readers. */
export function describeState(state: OwnTaskState): { word: string; output: string; said: string } {
  switch (state.status) {
    case 'queued':
      return { word: 'queued', output: '', said: 'Queued' };
    case 'running':
      return { word: state.attempt > 1 ? `running, attempt ${state.attempt}` : 'running', output: '', said: 'Running' };
    case 'retrying': {
      const seconds = Math.max(1, Math.ceil(state.next_attempt_at - Date.now() / 1000));
      return { word: `again in ${seconds} s`, output: state.reason, said: 'Retrying' };
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
