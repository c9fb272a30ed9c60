import type { TaskLimit, TaskProgress, TaskRow } from '../client/task-state.ts';

/** Response of `GET /tasks/<id>`. Times are Unix seconds, except times in milliseconds, whose names end in `_ms`. */
export type TaskState =
  | { status: 'queued' }
  | { status: 'limited'; limit?: TaskLimit }
  | { status: 'scheduled'; run_at_ms: number }
  | { status: 'running'; attempt: number; progress?: TaskProgress }
  | { status: 'retrying'; reason: string; next_attempt_at: number; next_attempt_at_ms?: number }
  | { status: 'completed'; result: string | null }
  | { status: 'failed'; reason: string; permanent?: boolean };

/** `schema` is the JSON Schema of the action's data. */
export interface Action {
  name: string;
  schema?: object;
}

/** `unknown_actions` tells whether the service accepts tasks whose action has no handler. */
export interface ActionList {
  actions: Action[];
  unknown_actions: 'process' | 'reject';
}

/** First invalid field of a request, or of a task's data. */
export interface WrongField {
  /** JSON Pointer into the request's body, or into the task's data. */
  path: string;
  /** Error message such as `must be number`. */
  detail: string;
}

export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

let token: string | undefined;

/** Sets or removes the token for all further requests. */
export function useToken(newToken: string | undefined): void {
  token = newToken;
}

/** Returns the `Authorization` header, or an empty object if no user is signed in. */
export function authorization(): Record<string, string> {
  return token === undefined ? {} : { Authorization: `Bearer ${token}` };
}

interface RefusalDetails {
  wrongField?: WrongField | undefined;
  retryAfterMs?: number | undefined;
}

/** Error response of the service. `message` is the service's error text. */
export class Refused extends Error {
  override name = 'Refused';
  readonly status: number;
  /** Field that the service has found wrong, if it names one. */
  readonly wrongField: WrongField | undefined;
  /** Delay from the `Retry-After` header, if any. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, status: number, { wrongField, retryAfterMs }: RefusalDetails = {}) {
    super(message);
    this.status = status;
    this.wrongField = wrongField;
    this.retryAfterMs = retryAfterMs;
  }

  get signedOut(): boolean {
    return this.status === 401;
  }
}

export class Unreachable extends Error {
  override name = 'Unreachable';

  /** True if the service did not respond in time, false if the connection failed. */
  get isTimeout(): boolean {
    return this.cause instanceof DOMException && this.cause.name === 'TimeoutError';
  }
}

/** Queues a task. @returns the task's id @throws {Refused | Unreachable} */
export async function submitTask(submission: Submission): Promise<string> {
  const { id } = await request('/tasks', { method: 'POST', body: JSON.stringify(submission) });
  return id;
}

/** Requests a task's state. Returns undefined if the service does not know the id. @throws {Refused | Unreachable} */
export async function findTask(id: string): Promise<TaskState | undefined> {
  return request(`/tasks/${id}`).catch((error) => {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  });
}

/** @returns whether the task is cancelled, or false while its handler still runs @throws {Refused | Unreachable} */
export async function cancelTask(id: string): Promise<boolean> {
  const { status } = await request(`/tasks/${id}`, { method: 'DELETE' });
  return status !== 'cancelling';
}

/** Makes a scheduled or retrying task due. @throws {Refused | Unreachable} */
export async function runTask(id: string): Promise<void> {
  await request(`/tasks/${id}/run`, { method: 'POST' });
}

/** Requests the actions that have a handler. @throws {Refused | Unreachable} */
export async function listActions(): Promise<ActionList> {
  return request('/actions');
}

/** Puts a dead letter back into the queue. @throws {Refused | Unreachable} */
export async function retryTask(id: string): Promise<void> {
  await request(`/dead-letters/${id}/retry`, { method: 'POST' });
}

/** Requests the newest 100 tasks. @param status empty for any status @throws {Refused | Unreachable} */
export async function listTasks(status: string): Promise<TaskRow[]> {
  const { tasks } = await request(status === '' ? '/tasks' : `/tasks?${new URLSearchParams({ status })}`);
  return tasks;
}

/** Sends a request with the user's token. @returns the JSON body of the response @throws {Refused | Unreachable} */
export async function request(path: string, options: RequestInit = {}, timeoutMs = 10_000) {
  const headers = authorization();
  const unreachable = (cause: unknown) => {
    throw new Unreachable('The service cannot be reached.', { cause });
  };
  const response = await fetch(path, { ...options, headers, signal: AbortSignal.timeout(timeoutMs) }).catch(
    unreachable,
  );
  if (response.status === 204) return {};
  const body = await response.json().catch((cause) => (response.ok ? unreachable(cause) : {}));
  if (!response.ok) {
    const { error = `status ${response.status}`, field, path = field && `/${field}`, detail } = body;
    const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN);
    throw new Refused(error, response.status, {
      wrongField: path === undefined ? undefined : { path, detail },
      retryAfterMs: retryAfter >= 0 ? retryAfter * 1000 : undefined,
    });
  }
  return body;
}
