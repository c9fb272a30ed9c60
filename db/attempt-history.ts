/** Failed attempt at a task. `at` is the time at which the attempt ended, in milliseconds since the epoch. */
export interface FailedAttempt {
  at: number;
  reason: string;
}

/** Failed attempts at a task, oldest first. */
export type AttemptHistory = readonly FailedAttempt[];

const MAX_ATTEMPTS = 20;
const MAX_REASON_LENGTH = 1000;

export const PROCESS_DIED = 'the process died while the task was running';

/** Returns `history` with one more attempt. Removes the oldest attempt beyond {@link MAX_ATTEMPTS}. */
export function withAttempt(history: AttemptHistory, at: number, reason: string): AttemptHistory {
  return [...history, { at, reason: sharedReason(history, reason.slice(0, MAX_REASON_LENGTH)) }].slice(-MAX_ATTEMPTS);
}

/** Returns the equal reason in `history` if there is one, so that equal reasons share memory. */
function sharedReason(history: AttemptHistory, reason: string): string {
  return history.find((attempt) => attempt.reason === reason)?.reason ?? reason;
}

/** Returns the history as JSON text, or null if it is empty. */
export function historyText(history: AttemptHistory): string | null {
  return history.length === 0 ? null : JSON.stringify(history);
}

const NONE: AttemptHistory = [];

export function readHistory(text: string | null): AttemptHistory {
  if (text === null) return NONE;
  const attempts: FailedAttempt[] = JSON.parse(text);
  return attempts.map(({ at, reason }) => ({ at, reason: sharedReason(attempts, reason) }));
}
