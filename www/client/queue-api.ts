import type { Abortable, HttpClient } from './http-client.ts';
import type { TaskState } from './task-state.ts';

/** Percentiles of a duration, in seconds. */
export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
}

/** Counts and state of the queue. Times are Unix seconds. */
export interface QueueStatus {
  accepted: number;
  completed: number;
  dead: number;
  dropped: number;
  cancelled: number;
  waiting: number;
  limited: number;
  scheduled: number;
  delayed: number;
  in_flight: number;
  running: number;
  /** Dead letters that the node that answers has evicted. */
  evicted: number;
  /** Submissions that the node that answers has refused because the queue was full. */
  refused: { total: number; per_second: number; last_at: number | null };
  bytes: number;
  limits: { length: number; bytes: number; dead_letters: number; prefetch: number };
  oldest_age_seconds: number | null;
  /** `overlap` is the number of handlers at a time in a thread. */
  threads: { busy: number; total: number; overlap: number };
  paused: boolean;
  paused_at_ms?: number;
  /** Reason why no task can be processed, and since when. */
  stalled: { reason: string; since: number } | null;
  /** Why a changed handlers module cannot be loaded. */
  module_problem?: string;
  latency: { window_seconds: number; waiting: Percentiles | null; running: Percentiles | null };
}

/** Numbers of each of the last seconds or minutes until `end` (Unix seconds), oldest first. */
export interface QueueHistory {
  end: number;
  seconds: number;
  /** Instead of `seconds`, with the step 60. */
  minutes?: number;
  accepted: number[];
  completed: number[];
  failed: number[];
  retried: number[];
  refused: number[];
  depth: number[];
  /** When the process started. */
  starts: number[];
}

/** Rates, shares and percentiles are those of the node that answers. */
export interface QueueActivity {
  /** Length of the period of rates, shares and percentiles, in seconds. */
  window_seconds: number;
  actions: {
    /** `other` stands for all actions that are not listed. */
    action: string;
    queued: number;
    limited: number;
    scheduled: number;
    retrying: number;
    in_flight: number;
    failed: number;
    per_second: number;
    failure_share: number | null;
    waiting: Percentiles | null;
    running: Percentiles | null;
  }[];
  counts_are_exact: boolean;
  /** Running tasks, the longest running first. */
  workers: {
    node: string | null;
    thread: number | null;
    task: string;
    action: string | null;
    attempt: number;
    started_at_ms: number;
    elapsed_ms: number;
  }[];
}

/** Unfinished task in a list, with the fields of its status. `payload` has the first 256 characters. */
export type ListedTask = { action: string | null; payload_bytes: number } & Pick<
  TaskState,
  'id' | 'status' | 'payload'
> &
  Partial<Record<string, unknown>>;

export type QueueApi = ReturnType<typeof queueApi>;

/** Requests about the queue as a whole. */
export function queueApi(http: HttpClient) {
  const change = async (path: string, options?: Abortable): Promise<void> => {
    await http.request(path, { ...options, method: 'POST', isRepeatable: true });
  };
  return {
    status: (options?: Abortable) => http.request<QueueStatus>('queue', options),
    /**
     * @param since `end` of the last response; only later ones are returned
     * @param step 60 for the minutes of the last 24 hours
     */
    history: ({ signal, ...query }: Abortable & { since?: number; step?: 1 | 60 } = {}) =>
      http.request<QueueHistory>('queue/history', { query, signal }),
    /**
     * Requests the tasks and recent attempts of each action, and the task of each thread.
     *
     * @param seconds period of the attempts, 300 by default
     */
    activity: ({ signal, ...query }: Abortable & { seconds?: 300 | 900 | 3600 | 86_400 } = {}) =>
      http.request<QueueActivity>('queue/activity', { query, signal }),
    /** Requests up to 100 unfinished tasks in a state, next to run first. `total` counts all of them. */
    tasks: (state: 'queued' | 'limited' | 'scheduled' | 'running' | 'retrying', options?: Abortable) =>
      http.request<{ tasks: ListedTask[]; count: number; total: number }>('queue/tasks', {
        ...options,
        query: { state },
      }),
    /** Pauses the processing of tasks on all nodes. */
    pause: (options?: Abortable) => change('queue/pause', options),
    resume: (options?: Abortable) => change('queue/resume', options),
  };
}
