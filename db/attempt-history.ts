/** Ended attempt at a task. Times are milliseconds since the epoch. */
export interface Attempt {
  /** Null if unknown, because the process or thread died before it reported the start. */
  startedAt: number | null;
  endedAt: number;
  /** Reason of the failure. Null if the attempt completed the task. */
  reason: string | null;
  /** Where its handler threw. */
  stack?: string | undefined;
  /** Id of the node that ran the attempt. Absent on a single node. */
  node?: string | undefined;
}

export interface AttemptHistory {
  /** Time from when the task first became due to the start of its first attempt. Null if unknown. */
  readonly waitedMs: number | null;
  /** Sum of the durations of all attempts. */
  readonly ranMs: number;
  /** The newest attempts, oldest first. */
  readonly attempts: readonly Attempt[];
}

export const NO_ATTEMPTS: AttemptHistory = { waitedMs: null, ranMs: 0, attempts: [] };

const MAX_ATTEMPTS = 20;
const MAX_REASON_LENGTH = 1000;
/** Number of the newest attempts that keep their stacks. */
const MAX_STACKS = 5;

export const PROCESS_DIED = 'the process died while the task was running';

/**
 * Returns `history` with one more attempt. Removes the oldest attempt beyond {@link MAX_ATTEMPTS}, and the oldest stack
 * beyond {@link MAX_STACKS}.
 *
 * @param dueAt when the message became due
 */
export function withAttempt(history: AttemptHistory, dueAt: number, attempt: Attempt): AttemptHistory {
  const { attempts, waitedMs, ranMs } = history;
  const { startedAt, endedAt, reason } = attempt;
  const ended = { ...attempt, reason: reason?.slice(0, MAX_REASON_LENGTH) ?? null };
  const firstKept = attempts.length + 1 - MAX_STACKS;
  const bounded = attempts.map((each, index) => (index < firstKept ? { ...each, stack: undefined } : each));
  return {
    waitedMs: attempts.length > 0 ? waitedMs : startedAt && Math.max(0, startedAt - dueAt),
    ranMs: ranMs + (startedAt === null ? 0 : Math.max(0, endedAt - startedAt)),
    attempts: [...bounded, ended].slice(-MAX_ATTEMPTS),
  };
}

/** Reads the JSON text of a history, or null if there is none. */
export function readHistory(text: string | null): AttemptHistory {
  return text === null ? NO_ATTEMPTS : JSON.parse(text);
}
