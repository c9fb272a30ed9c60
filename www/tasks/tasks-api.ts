/** A stored task as the service lists it; `payload` and `result` are JSON texts, times are Unix seconds. */
export interface TaskRow {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

/** Progress of a task as the service reports it. Times are Unix seconds. */
export type TaskState =
  | { status: 'queued' }
  | { status: 'running'; attempt: number }
  | { status: 'retrying'; reason: string; next_attempt_at: number }
  | { status: 'completed'; result: string | null }
  | { status: 'failed'; reason: string };

/** Body of `POST /tasks`. */
export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** Token of the signed-in user. Always undefined without `TASKS_REQUIRE_TOKEN`. */
let token: string | undefined;

/** Sets the token of all further requests; undefined for none. */
export function useToken(newToken: string | undefined): void {
  token = newToken;
}

/** Returns the `Authorization` header with the token, or no header if there is no token. */
export function authorization(): Record<string, string> {
  return token === undefined ? {} : { Authorization: `Bearer ${token}` };
}

/** Thrown if the service responds with an error, whose text is `message`. */
export class Refused extends Error {
  override name = 'Refused';
  readonly status: number;
  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }

  /** Whether the request lacked a valid token. */
  get signedOut(): boolean {
    return this.status === 401;
  }
}

/** Thrown if the service does not respond. */
export class Unreachable extends Error {
  override name = 'Unreachable';
}

/** Queues a task. @returns its id @throws {Refused | Unreachable} */
export async function submitTask(submission: Submission): Promise<string> {
  const { id } = await call('/tasks', { method: 'POST', body: JSON.stringify(submission) });
  return id;
}

/** Returns the progress of a task, or undefined if the service does not know it. @throws {Refused | Unreachable} */
export async function findTask(id: string): Promise<TaskState | undefined> {
  return call(`/tasks/${id}`, {}).catch((error) => {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  });
}

/** Puts a dead-lettered task back into the queue. @throws {Refused | Unreachable} */
export async function retryTask(id: string): Promise<void> {
  await call(`/dead-letters/${id}/retry`, { method: 'POST' });
}

/** Returns the newest 100 stored tasks, filtered by `status` unless it is empty. @throws {Refused | Unreachable} */
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
