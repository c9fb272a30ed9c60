/** A failed attempt at a task. `at` is when the attempt ended, in milliseconds since the epoch. */
export interface FailedAttempt {
  at: number;
  reason: string;
}

/** Failed attempts at a task, oldest first: the newest {@link MAX_ATTEMPTS}. */
export type AttemptHistory = readonly FailedAttempt[];

/** Maximum number of attempts in a history. One more evicts the oldest. */
const MAX_ATTEMPTS = 20;
/** Maximum length of an attempt's reason in characters. */
const MAX_REASON = 1000;

/** Reason for an attempt that ended because its process died. */
export const PROCESS_DIED = 'the process died while the task was running';

/** Returns the history with a further failed attempt. */
export function withAttempt(history: AttemptHistory, at: number, reason: string): AttemptHistory {
  return [...history, { at, reason: sharedReason(history, reason.slice(0, MAX_REASON)) }].slice(-MAX_ATTEMPTS);
}

/** Returns a reason as the string that an attempt with the same reason holds, if any, so that equal reasons take memory once. */
export function sharedReason(history: AttemptHistory, reason: string): string {
  return history.find((attempt) => attempt.reason === reason)?.reason ?? reason;
}

/** Returns the history as JSON text, or null if it is empty. */
export function historyText(history: AttemptHistory): string | null {
  return history.length === 0 ? null : JSON.stringify(history);
}

/** Reads a history from JSON text. Messages stored by an earlier version have none. */
export function readHistory(text: string | null): AttemptHistory {
  const attempts: FailedAttempt[] = text === null ? [] : JSON.parse(text);
  return attempts.map(({ at, reason }) => ({ at, reason: sharedReason(attempts, reason) }));
}

export function withoutOldest(history: AttemptHistory): AttemptHistory {
  return history.slice(1);
}
