import { inspect } from 'node:util';

const MAX_REASON_LENGTH = 1000;
const MAX_RETRY_DELAY_MS = 24 * 60 * 60 * 1000;

export interface AttemptFailure {
  reason: string;
  /** Whether the task must not be retried. */
  permanent: boolean;
  /** If undefined, the retry policy sets the delay. */
  retryAfterMs?: number;
}

/** Never throws. Recognizes errors by name, because a handlers module may load its own copy of the error classes. */
export function readThrown(thrown: unknown): AttemptFailure {
  const name = property(thrown, 'name');
  const failure = { reason: describe(thrown), permanent: name === 'PermanentError' };
  const delayMs = name === 'RetryAfter' ? property(thrown, 'delayMs') : undefined;
  if (typeof delayMs !== 'number' || !Number.isFinite(delayMs) || delayMs < 0) return failure;
  return { ...failure, retryAfterMs: Math.min(Math.ceil(delayMs), MAX_RETRY_DELAY_MS) };
}

function property(value: unknown, key: string): unknown {
  try {
    return (value as Record<string, unknown> | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

function describe(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : thrown;
    return (typeof text === 'string' ? text : inspect(text, { depth: 1 })).slice(0, MAX_REASON_LENGTH);
  } catch {
    return 'an error that cannot be read';
  }
}

/** Replaces each run of white space by a space. */
export function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
