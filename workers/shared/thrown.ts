import { inspect } from 'node:util';

const MAX_REASON_LENGTH = 1000;
/** Message of the error that `fetch` throws if it gets no response. */
const FETCH_FAILED = 'fetch failed';
const MAX_RETRY_DELAY_MS = 24 * 60 * 60 * 1000;

export interface AttemptFailure {
  reason: string;
  permanent: boolean;
  /** If undefined, the retry policy sets the delay. */
  retryAfterMs?: number;
  /** Where a handler threw, and why. */
  stack?: string;
}

/** Never throws. Recognizes errors by name, because a handlers module may load its own copy of the error classes. */
export function readThrown(thrown: unknown): AttemptFailure {
  const name = property(thrown, 'name');
  const failure = { reason: describe(thrown), permanent: name === 'PermanentError' };
  const delayMs = name === 'RetryAfter' ? property(thrown, 'delayMs') : undefined;
  if (typeof delayMs !== 'number' || !Number.isFinite(delayMs) || delayMs < 0) return failure;
  return { ...failure, retryAfterMs: Math.min(Math.ceil(delayMs), MAX_RETRY_DELAY_MS) };
}

/** Returns undefined if the property cannot be read. */
export function property(value: unknown, key: string): unknown {
  try {
    return (value as Record<string, unknown> | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

/** Returns the message of an error, or any other value as text. Never throws. */
export function describe(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? messageOf(thrown) : thrown;
    return (typeof text === 'string' ? text : inspect(text, { depth: 1 })).slice(0, MAX_REASON_LENGTH);
  } catch {
    return 'an error that cannot be read';
  }
}

/** Returns an error's message. For a failed `fetch`, adds the reason, which is only in the error's cause. */
function messageOf(error: Error): unknown {
  const { message } = error;
  if (message !== FETCH_FAILED) return message;
  // The cause has no message if the host name has several addresses.
  const detail = property(error.cause, 'message') || property(error.cause, 'code');
  return typeof detail === 'string' ? `${FETCH_FAILED}: ${detail}` : FETCH_FAILED;
}

export function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
