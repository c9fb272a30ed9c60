import { signal } from '@preact/signals';
import { ServiceError } from '../client/errors.ts';
import { TaskClient } from '../client/task-client.ts';
import type { Session } from '../shared/sign-in.ts';

export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** Session of the signed-in user. Undefined if the service requires no token, too. */
export const session = signal<Session>();

/** The page sends a request once, because it shows a failure at once and reads again on its own. */
export const client = new TaskClient(new URL('/', import.meta.url), {
  token: () => session.peek()?.token,
  giveUpMs: 0,
});

/** Sets or removes the session for all further requests. The client keeps the earlier token until it is refused. */
export function useSession(started: Session | undefined): void {
  const earlier = session.peek()?.token;
  session.value = started;
  void client.http.credentials.refuse(earlier);
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

export function curlCommand(submission: Submission): string {
  const body = JSON.stringify(submission).replaceAll("'", "'\\''");
  return `curl ${location.origin}/tasks${tokenOption()} -d '${body}'`;
}
