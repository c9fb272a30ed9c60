import { signal } from '@preact/signals';
import { type BulkResult, deadLetters as deadLettersOf } from '../client/dead-letters.ts';
import { ServiceError } from '../client/errors.ts';
import { HttpClient } from '../client/http-client.ts';
import { limits as limitsOf } from '../client/limits.ts';
import { queueApi } from '../client/queue-api.ts';
import { schedules as schedulesOf } from '../client/schedules.ts';
import type { ActionList } from '../client/task-client.ts';

export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** Maximum number of ids that the service accepts in one request. */
const MAX_IDS = 1_000;
/** Time limit of a request that may cancel all tasks. */
const BULK_MS = 60_000;

const token = signal<string>();

/** The page sends a request once, because it shows a failure at once and reads again on its own. */
export const http = new HttpClient(new URL('/', import.meta.url), { token: () => token.peek() }, 0);
export const queue = queueApi(http);
export const deadLetters = deadLettersOf(http);
export const schedules = schedulesOf(http);
export const limits = limitsOf(http);

/** Sets or removes the token for all further requests. The client keeps the earlier token until it is refused. */
export function useToken(newToken: string | undefined): void {
  const earlier = token.peek();
  token.value = newToken;
  void http.credentials.refuse(earlier);
}

export function isSignedIn(): boolean {
  return token.value !== undefined;
}

/** Whether a request failed because the token is missing or no longer valid. */
export function isSignedOut(error: unknown): boolean {
  return hasStatus(error, 401);
}

/** Whether the service answered a request with one of `statuses`. */
export function hasStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof ServiceError && statuses.includes(error.status);
}

/** Resolves like a request, but with undefined after a 404. */
export function found<Answer>(request: Promise<Answer>): Promise<Answer | undefined> {
  return request.catch((error) => {
    if (hasStatus(error, 404)) return undefined;
    throw error;
  });
}

/** Queues a task. @returns the task's id @throws {ServiceError | UnreachableError} */
export async function submitTask(submission: Submission): Promise<string> {
  const { id } = await http.request<{ id: string }>('tasks', { method: 'POST', body: submission });
  return id;
}

/** Requests a task. Returns undefined if the service does not know the id. @throws {ServiceError | UnreachableError} */
export function findTask<Detail>(id: string): Promise<Detail | undefined> {
  return found(http.request<Detail>(`tasks/${encodeURIComponent(id)}`));
}

/** @returns whether the task is cancelled, or false while its handler still runs @throws {ServiceError | UnreachableError} */
export async function cancelTask(id: string): Promise<boolean> {
  const answer = await http.request<{ status: string } | undefined>(`tasks/${id}`, { method: 'DELETE' });
  return answer?.status !== 'cancelling';
}

const BULK = {
  redrive: deadLetters.redriveAll,
  purge: deadLetters.purgeAll,
  cancel: (body: object): Promise<BulkResult> =>
    http.request('tasks/cancel', { method: 'POST', body, timeoutMs: BULK_MS }),
};

/**
 * Redrives, purges or cancels all selected tasks. Many ids take several requests.
 *
 * @param perSecond number of tasks that a redrive makes due per second
 * @throws {ServiceError | UnreachableError}
 */
export async function changeTasks(verb: keyof typeof BULK, selection: object, perSecond?: number): Promise<BulkResult> {
  const { ids }: { ids?: string[] } = selection;
  const parts = ids === undefined ? [selection] : chunksOf(ids).map((chunk) => ({ ids: chunk }));
  const pace = perSecond === undefined ? {} : { per_second: perSecond / parts.length };
  const sum = { count: 0, remaining: 0 };
  for (const part of parts) {
    const { count, remaining } = await BULK[verb]({ ...part, ...pace } as never);
    sum.count += count;
    sum.remaining += remaining;
  }
  return sum;
}

function chunksOf(ids: readonly string[]): string[][] {
  const length = Math.ceil(ids.length / MAX_IDS);
  return Array.from({ length }, (_, index) => ids.slice(index * MAX_IDS, (index + 1) * MAX_IDS));
}

/** Makes a scheduled or retrying task due. @throws {ServiceError | UnreachableError} */
export async function runTask(id: string): Promise<void> {
  await http.request(`tasks/${id}/run`, { method: 'POST' });
}

/** Requests the actions that have a handler. @throws {ServiceError | UnreachableError} */
export function listActions(): Promise<ActionList> {
  return http.request('actions');
}

/** Returns a curl command that queues a task, with the shell variable `TOKEN` if the service requires a token. */
export function curlCommand(submission: Submission): string {
  const header = isSignedIn() ? ' -H "Authorization: Bearer $TOKEN"' : '';
  const body = JSON.stringify(submission).replaceAll("'", "'\\''");
  return `curl ${location.origin}/tasks${header} -d '${body}'`;
}
