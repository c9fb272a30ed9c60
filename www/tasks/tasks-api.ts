/** Stored task as listed by the service. `payload` and `result` are JSON text; times are Unix seconds. */
export interface TaskRow {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

/** Progress reported by a handler: the fraction done, from 0 to 1, and an optional note. */
export interface TaskProgress {
  fraction: number;
  note?: string;
}

/** State of a task as reported by the service. Times are Unix seconds, unless their name ends in `_ms`. */
export type TaskState =
  | { status: 'queued' }
  | { status: 'running'; attempt: number; progress?: TaskProgress }
  | { status: 'retrying'; reason: string; next_attempt_at: number; next_attempt_at_ms?: number }
  | { status: 'completed'; result: string | null }
  | { status: 'failed'; reason: string; permanent?: boolean };

/** Action that has a handler. `schema` is the JSON Schema of its data. */
export interface Action {
  name: string;
  schema?: object;
}

/** Actions that have a handler, and whether tasks with other actions are refused. */
export interface ActionList {
  actions: Action[];
  unknown_actions: 'process' | 'reject';
}

/** First field of a task's data that does not match the schema of its action. */
export interface WrongField {
  /** JSON Pointer of the field within the data. */
  path: string;
  /** What is wrong, for example `must be number`. */
  detail: string;
}

/** Body of `POST /tasks`. */
export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** Token of the signed-in user. Always undefined unless `TASKS_REQUIRE_TOKEN=true`. */
let token: string | undefined;

/** Sets the token sent with all further requests. Undefined removes it. */
export function useToken(newToken: string | undefined): void {
  token = newToken;
}

/** Returns the `Authorization` header with the token, or an empty object if the user is not signed in. */
export function authorization(): Record<string, string> {
  return token === undefined ? {} : { Authorization: `Bearer ${token}` };
}

interface RefusalDetails {
  wrongField?: WrongField | undefined;
  retryAfterMs?: number | undefined;
}

/** Thrown if the service responds with an error. `message` is the service's error text. */
export class Refused extends Error {
  override name = 'Refused';
  readonly status: number;
  /** Set if the data of a submission does not match its schema. */
  readonly wrongField: WrongField | undefined;
  /** Milliseconds to wait before repeating the request, as stated by the service. Undefined if it states no time. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, status: number, { wrongField, retryAfterMs }: RefusalDetails = {}) {
    super(message);
    this.status = status;
    this.wrongField = wrongField;
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether the request lacked a valid token. */
  get signedOut(): boolean {
    return this.status === 401;
  }
}

/** Thrown if the service does not respond. */
export class Unreachable extends Error {
  override name = 'Unreachable';

  /** Whether no answer arrived in time. Otherwise the connection failed. */
  get isTimeout(): boolean {
    return this.cause instanceof DOMException && this.cause.name === 'TimeoutError';
  }
}

/** Queues a task. @returns its id @throws {Refused | Unreachable} */
export async function submitTask(submission: Submission): Promise<string> {
  const { id } = await request('/tasks', { method: 'POST', body: JSON.stringify(submission) });
  return id;
}

/** Returns the state of a task, or undefined if the service does not know the task. @throws {Refused | Unreachable} */
export async function findTask(id: string): Promise<TaskState | undefined> {
  return request(`/tasks/${id}`).catch((error) => {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  });
}

/**
 * Cancels a task.
 *
 * @returns true if the task was cancelled, false if the task is still running and its signal is aborted
 * @throws {Refused | Unreachable}
 */
export async function cancelTask(id: string): Promise<boolean> {
  const { status } = await request(`/tasks/${id}`, { method: 'DELETE' });
  return status !== 'cancelling';
}

/** Returns the actions that have a handler. @throws {Refused | Unreachable} */
export async function listActions(): Promise<ActionList> {
  return request('/actions');
}

/** Puts a dead-lettered task back into the queue. @throws {Refused | Unreachable} */
export async function retryTask(id: string): Promise<void> {
  await request(`/dead-letters/${id}/retry`, { method: 'POST' });
}

/** Returns the newest 100 stored tasks, filtered by `status` unless it is empty. @throws {Refused | Unreachable} */
export async function listTasks(status: string): Promise<TaskRow[]> {
  const { tasks } = await request(status === '' ? '/tasks' : `/tasks?${new URLSearchParams({ status })}`);
  return tasks;
}

/** Sends a request with the user's token. @returns the body of the response @throws {Refused | Unreachable} */
export async function request(path: string, options: RequestInit = {}, timeoutMs = 10_000) {
  const headers = authorization();
  const response = await fetch(path, { ...options, headers, signal: AbortSignal.timeout(timeoutMs) }).catch((cause) => {
    throw new Unreachable('The service cannot be reached.', { cause });
  });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    const { error = `status ${response.status}`, path, detail } = body;
    const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN);
    throw new Refused(error, response.status, {
      wrongField: path === undefined ? undefined : { path, detail },
      retryAfterMs: retryAfter >= 0 ? retryAfter * 1000 : undefined,
    });
  }
  return body;
}
