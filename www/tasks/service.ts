import { signal } from '@preact/signals';
import { type BulkResult, deadLetters as deadLettersOf } from '../client/dead-letters.ts';
import { ServiceError } from '../client/errors.ts';
import { HttpClient } from '../client/http-client.ts';
import { limits as limitsOf } from '../client/limits.ts';
import { queueApi } from '../client/queue-api.ts';
import { schedules as schedulesOf } from '../client/schedules.ts';
import type { ActionList } from '../client/task-client.ts';
import type { Session } from '../shared/sign-in.ts';

export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** Maximum number of ids that the service accepts in one request. */
const MAX_IDS = 1_000;
/** Time limit of a request that may cancel all tasks. */
const BULK_MS = 60_000;

/** Session of the signed-in user. Undefined if the service requires no token, too. */
export const session = signal<Session>();

/** The page sends a request once, because it shows a failure at once and reads again on its own. */
export const http = new HttpClient(new URL('/', import.meta.url), { token: () => session.peek()?.token }, 0);
export const queue = queueApi(http);
export const deadLetters = deadLettersOf(http);
export const schedules = schedulesOf(http);
export const limits = limitsOf(http);

/** Sets or removes the session for all further requests. The client keeps the earlier token until it is refused. */
export function useSession(started: Session | undefined): void {
  const earlier = session.peek()?.token;
  session.value = started;
  void http.credentials.refuse(earlier);
}

/** Option of curl commands that sends the shell variable `TOKEN`, if the service requires a token. */
export const tokenOption = (): string => (session.value === undefined ? '' : ' -H "Authorization: Bearer $TOKEN"');

/** Whether a request failed because the token is missing or no longer valid. */
export const isSignedOut = (error: unknown): boolean => hasStatus(error, 401);

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

/**
 * Returns a request to repeat. `answer` is its newest answer, and `problem` says why that is not up to date, or is empty.
 * `read` sends the request. `poll` does so unless the last one is open or was sent less than `intervalMs` ago: it is
 * called with each answer of `GET /queue`, so it pauses while the page is hidden or the service does not answer.
 *
 * @param pauseRatio minimum pause before a poll, as a multiple of the last request's duration
 */
export function repeated<Answer>(intervalMs: number, request: () => Promise<Answer>, initial: Answer, pauseRatio = 0) {
  const answer = signal(initial);
  const problem = signal('');
  let sent = 0;
  let answered = 0;
  let notBefore = Number.NEGATIVE_INFINITY;
  const read = async () => {
    sent += 1;
    const number = sent;
    const sentAt = performance.now();
    const [result] = await Promise.allSettled([request()]);
    const answeredAt = performance.now();
    // Answers of `GET /queue` come about once per second, a little earlier or later.
    notBefore = Math.max(sentAt + intervalMs - 500, answeredAt + pauseRatio * (answeredAt - sentAt));
    // Answers may come out of order.
    if (number < answered) return;
    answered = number;
    if (result.status === 'fulfilled') answer.value = result.value;
    const isUpToDate = result.status === 'fulfilled' || isSignedOut(result.reason);
    problem.value = isUpToDate ? '' : `Not up to date: ${result.reason.message}`;
  };
  const poll = () => {
    if (sent === answered && performance.now() >= notBefore) void read();
  };
  return { answer, problem, read, poll };
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
 * @param perSecond number of tasks that a redrive makes due per second, or 0 if all are due at once
 * @throws {ServiceError | UnreachableError}
 */
export async function changeTasks(verb: keyof typeof BULK, selection: object, perSecond = 0): Promise<BulkResult> {
  const { ids }: { ids?: string[] } = selection;
  const chunks = Array.from({ length: Math.ceil((ids?.length ?? 0) / MAX_IDS) }, (_, index) => index * MAX_IDS);
  const parts = ids === undefined ? [selection] : chunks.map((start) => ({ ids: ids.slice(start, start + MAX_IDS) }));
  const pace = perSecond === 0 ? {} : { per_second: perSecond / parts.length };
  const sum = { count: 0, remaining: 0 };
  for (const part of parts) {
    const { count, remaining } = await BULK[verb]({ ...part, ...pace } as never);
    sum.count += count;
    sum.remaining += remaining;
  }
  return sum;
}

/** Makes a scheduled or retrying task due. @throws {ServiceError | UnreachableError} */
export async function runTask(id: string): Promise<void> {
  await http.request(`tasks/${id}/run`, { method: 'POST' });
}

export const listActions = (): Promise<ActionList> => http.request('actions');

export function curlCommand(submission: Submission): string {
  const body = JSON.stringify(submission).replaceAll("'", "'\\''");
  return `curl ${location.origin}/tasks${tokenOption()} -d '${body}'`;
}
