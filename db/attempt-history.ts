/** A failed attempt at a task. `at` is when the attempt ended, in milliseconds since the epoch. */
export interface FailedAttempt {
  at: number;
  reason: string;
}

/** The newest failed attempts at a task, up to {@link MAX_ATTEMPTS}, oldest first. */
export type AttemptHistory = readonly FailedAttempt[];

/** Maximum number of attempts in a history. Any further attempt evicts the oldest. */
const MAX_ATTEMPTS = 20;
/** Maximum length of an attempt's reason in characters. */
const MAX_REASON = 1000;

/** Reason for an attempt that ended because its process died. */
export const PROCESS_DIED = 'the process died while the task was running';

/** Returns the history with a further failed attempt. */
export function withAttempt(history: AttemptHistory, at: number, reason: string): AttemptHistory {
  return [...history, { at, reason: sharedReason(history, reason.slice(0, MAX_REASON)) }].slice(-MAX_ATTEMPTS);
}

/** Returns `reason`, or the equal string in the history, so that equal reasons share memory. */
export function sharedReason(history: AttemptHistory, reason: string): string {
  return history.find((attempt) => attempt.reason === reason)?.reason ?? reason;
}

/** Returns the history as JSON text, or null if it is empty. */
export function historyText(history: AttemptHistory): string | null {
  return history.length === 0 ? null : JSON.stringify(history);
}

/** Reads a history from JSON text. Returns an empty history for null. */
export function readHistory(text: string | null): AttemptHistory {
  const attempts: FailedAttempt[] = text === null ? [] : JSON.parse(text);
  return attempts.map(({ at, reason }) => ({ at, reason: sharedReason(attempts, reason) }));
}

export function withoutOldest(history: AttemptHistory): AttemptHistory {
  return history.slice(1);
}
