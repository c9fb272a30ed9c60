/** A stored task as the service lists it; `payload` and `result` are JSON texts, times are Unix seconds. */
export interface TaskRow {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

/** How far a task has come, as the service tells of one; times are Unix seconds. */
export type TaskState =
  | { status: 'queued' }
  | { status: 'running'; attempt: number }
  | { status: 'retrying'; reason: string; next_attempt_at: number }
  | { status: 'completed'; result: string | null }
  | { status: 'failed'; reason: string };

/** What is sent to queue a task. */
export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** Token of the signed-in user. Always undefined without `TASKS_REQUIRE_TOKEN`. */
let token: string | undefined;

/** Sends a token with every request from now on, or none. */
export function useToken(newToken: string | undefined): void {
  token = newToken;
}

/** Header of the token, if there is one. */
export function authorization(): Record<string, string> {
  return token === undefined ? {} : { Authorization: `Bearer ${token}` };
}

/** The service answered, with an error: `message` holds its own words. */
export class Refused extends Error {
  override name = 'Refused';
  readonly status: number;
  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }

  /** Whether a valid token is missing. */
  get signedOut(): boolean {
    return this.status === 401;
  }
}

/** The service did not answer. */
export class Unreachable extends Error {
  override name = 'Unreachable';
}

/**
 * Queues a task; returns its id.
 *
 * @throws {Refused | Unreachable}
 */
export async function submitTask(submission: Submission): Promise<string> {
  const { id } = await call('/tasks', { method: 'POST', body: JSON.stringify(submission) });
  return id;
}

/**
 * How far a task has come; undefined for one that the service does not know.
 *
 * @throws {Refused | Unreachable}
 */
export async function findTask(id: string): Promise<TaskState | undefined> {
  return call(`/tasks/${id}`, {}).catch((error) => {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  });
}

/**
 * Queues a task again that was given up.
 *
 * @throws {Refused | Unreachable}
 */
export async function retryTask(id: string): Promise<void> {
  await call(`/dead-letters/${id}/retry`, { method: 'POST' });
}

/**
 * The newest 100 tasks, only those of `status` unless it is empty.
 *
 * @throws {Refused | Unreachable}
 */
export async function listTasks(status: string): Promise<TaskRow[]> {
  const { tasks } = await call(status === '' ? '/tasks' : `/tasks?${new URLSearchParams({ status })}`, {});
  return tasks;
}

async function call(path: string, options: RequestInit) {
  const headers = authorization();
  const response = await fetch(path, { ...options, headers, signal: AbortSignal.timeout(10_000) }).catch((cause) => {
    throw new Unreachable('The service cannot be reached.', { cause });
  });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(body.error ?? `status ${response.status}`, response.status);
  return body;
}
