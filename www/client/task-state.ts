/** Ended attempt of a task. The reason of a successful one is null. Times are in milliseconds since the epoch. */
export interface Attempt {
  started_at_ms: number | null;
  ended_at_ms: number;
  reason: string | null;
  /** Error class, stack and causes, if the handler threw an error that says where. */
  stack?: string;
  /** Node that ran the attempt, if there are several. */
  node?: string;
}

/** Progress reported by a handler. `fraction` is from 0 to 1. */
export interface TaskProgress {
  fraction: number;
  note?: string;
}

/** Limit for which a task waits. `key` is absent if it is the action's own. */
export interface TaskLimit {
  action: string;
  key?: string;
  concurrency?: number;
  running: number;
  next_start_at_ms?: number;
}

/** Fields of a task that is not completed. `payload` is JSON text. */
interface Accepted {
  id: string;
  payload: string;
  priority: number;
  limit_key?: string;
  schedule?: string;
  callback_url?: string;
  traceparent?: string;
  accepted_at_ms: number;
  history: Attempt[];
}

/** Result row. `payload` and `result` are JSON text, and times are Unix seconds. */
export interface TaskRow {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

/** Times of a task that has ended. Absent from tasks of version 0.1.0. */
export interface Times {
  attempts?: number;
  waited_ms?: number | null;
  ran_ms?: number;
  history?: Attempt[];
}

/** Failed task. `first_at` (accepted) and `last_at` (dead-lettered) are Unix seconds. */
export interface DeadLetter extends Pick<Accepted, 'id' | 'payload' | 'priority' | 'limit_key' | 'callback_url'> {
  status: 'failed';
  reason: string;
  attempts: number;
  permanent: boolean;
  first_at: number;
  last_at: number;
}

/** Response of `GET /tasks/<id>`. */
export type TaskState =
  | (Accepted & { status: 'queued' })
  | (Accepted & { status: 'limited'; limited_by: 'key' | 'action'; limit?: TaskLimit })
  | (Accepted & { status: 'scheduled'; run_at_ms: number })
  | (Accepted & { status: 'running'; attempt: number; started_at_ms: number; progress?: TaskProgress })
  | (Accepted & Retry & { status: 'retrying' })
  | (TaskRow & Times & { status: 'completed' })
  | (DeadLetter & Times);

interface Retry {
  attempts: number;
  /** Reason of the last failure. */
  reason: string;
  next_attempt_at: number;
  next_attempt_at_ms: number;
}

/** Change of a task. */
export type TaskChange =
  | { event: 'accepted' }
  | { event: 'completed' }
  | { event: 'cancelled' }
  /** Accepted, and due later. */
  | { event: 'scheduled'; run_at_ms: number }
  | { event: 'started'; attempt: number }
  | { event: 'progress'; attempt: number; progress: TaskProgress }
  | ({ event: 'retrying' } & Retry)
  | { event: 'failed'; attempts: number; reason: string };

/** Event of the stream `GET /tasks/events`. `at` is in milliseconds since the epoch. */
export type TaskEvent = { id: string; action?: string; at: number } & (TaskChange | { event: 'purged' });

/** Event of the queue. After a `gap`, events are missing. */
export type QueueEvent = { event: 'paused' | 'resumed'; at: number } | { event: 'gap' };
