import { framesOf } from '../shared/frames.ts';
import { type AttemptFailure, describe, property } from '../shared/thrown.ts';

const MAX_STACK_LENGTH = 2000;
const MAX_CAUSES = 5;
/** Part of `stack` that is read, from its end: the frames follow the message, which has any length. */
const MAX_READ_LENGTH = 8000;

/**
 * Returns the name, the frames in the user's files and the causes of an error, as text. Undefined if it has no such frame
 * and no cause. A `PermanentError` or `RetryAfter` has none unless it has a cause, because it is thrown on purpose.
 */
export function stackOf(
  thrown: unknown,
  { permanent, retryAfterMs }: Partial<AttemptFailure> = {},
): string | undefined {
  const isDeliberate = permanent || retryAfterMs !== undefined;
  const lines = isDeliberate ? [] : linesOf(thrown);
  const told = new Set([thrown]);
  for (const error of told) {
    for (const cause of causesOf(error)) {
      if (told.size > MAX_CAUSES || told.has(cause)) continue;
      told.add(cause);
      const name = property(cause, 'name');
      lines.push(`caused by ${name === undefined ? '' : `${describe(name)}: `}${describe(cause)}`, ...linesOf(cause));
    }
  }
  if (lines.length === 0) return undefined;
  return [describe(property(thrown, 'name') ?? 'Error'), ...lines].join('\n').slice(0, MAX_STACK_LENGTH);
}

/** Returns the cause of an error, or the errors of an `AggregateError`. */
function causesOf(thrown: unknown): unknown[] {
  const errors = property(thrown, 'name') === 'AggregateError' ? property(thrown, 'errors') : undefined;
  const causes = Array.from({ length: MAX_CAUSES }, (_, index) => property(errors, String(index)));
  return [property(thrown, 'cause'), ...causes].filter((cause) => cause != null);
}

/** Returns the frames of an error. Those in packages are left out, unless there are no others. */
function linesOf(thrown: unknown): string[] {
  const stack = property(thrown, 'stack');
  if (typeof stack !== 'string') return [];
  const frames = framesOf(stack.slice(-MAX_READ_LENGTH));
  const own = frames.filter(({ file }) => !file.includes('/node_modules/'));
  return (own.length > 0 ? own : frames).map(
    ({ name, place }) => `    at ${name === undefined ? place : `${name} (${place})`}`,
  );
}
