import type { TaskLimit, TaskProgress } from '../client/task-state.ts';
import { type BoardTask, present, type State } from './board-task.ts';
import { http } from './service.ts';

export interface ListFilter {
  action?: string;
  /** Cause of failed tasks. */
  cause?: string;
}

/** Maximum number of tasks in one response. */
export const PAGE_SIZE = 100;

/** Requests up to {@link PAGE_SIZE} tasks in a state, older than the task `before` if it is given. @throws {ServiceError | UnreachableError} */
export async function listState(state: State, query: ListFilter & { before?: string } = {}): Promise<BoardTask[]> {
  const { action, cause, before } = query;
  if (state === 'completed') {
    const query = { status: 'completed', action, before, summary: '1' };
    const { tasks } = await http.request<{ tasks: Row[] }>('tasks', { query });
    return tasks.map(fromRow);
  }
  if (state === 'failed') {
    const query = { action, cause, before, summary: '1' };
    const { dead_letters } = await http.request<{ dead_letters: Letter[] }>('dead-letters', { query });
    return dead_letters.map(fromDeadLetter);
  }
  const { tasks } = await http.request<{ tasks: Unfinished[] }>('queue/tasks', { query: { state } });
  return tasks.map(fromQueue);
}

interface Summary {
  id: string;
  action: string | null;
  priority?: number;
  limit_key?: string;
  payload: string;
  payload_bytes: number;
}

interface Row extends Summary {
  result: string;
  result_bytes: number;
  created_at: number;
  processed_at: number;
}

interface Letter extends Summary {
  reason: string;
  cause: string;
  attempts: number;
  permanent: boolean;
  first_at: number;
  last_at: number;
}

interface Unfinished extends Summary {
  status: 'scheduled' | 'queued' | 'limited' | 'running' | 'retrying';
  accepted_at_ms: number;
  started_at_ms?: number;
  attempt?: number;
  attempts?: number;
  reason?: string;
  next_attempt_at_ms?: number;
  run_at_ms?: number;
  progress?: TaskProgress;
  limit?: TaskLimit;
}

function fromRow(row: Row): BoardTask {
  const { result, result_bytes: resultBytes, created_at, processed_at } = row;
  const times = { acceptedAtMs: created_at * 1000, endedAtMs: processed_at * 1000 };
  return { ...summaryOf(row), state: 'completed', result, resultBytes, ...times };
}

function fromDeadLetter(letter: Letter): BoardTask {
  const { reason, cause, attempts, permanent, first_at, last_at } = letter;
  const times = { acceptedAtMs: first_at * 1000, endedAtMs: last_at * 1000 };
  return { ...summaryOf(letter), state: 'failed', reason, cause, attempts, permanent, ...times };
}

function fromQueue(task: Unfinished): BoardTask {
  const { status: state, attempt, attempts, reason, progress, limit } = task;
  const { started_at_ms, next_attempt_at_ms, run_at_ms } = task;
  const times = { startedAtMs: started_at_ms, dueAtMs: next_attempt_at_ms ?? run_at_ms };
  const optional = present({ attempt, attempts, reason, progress, limit, ...times });
  return { ...summaryOf(task), state, acceptedAtMs: task.accepted_at_ms, ...optional };
}

function summaryOf({ id, action, payload, payload_bytes: payloadBytes, priority, limit_key: limitKey }: Summary) {
  return { id, action: action ?? 'unreadable', payload, payloadBytes, ...present({ priority, limitKey }) };
}
