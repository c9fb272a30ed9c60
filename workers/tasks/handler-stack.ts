import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AttemptFailure, describe, property } from '../shared/thrown.ts';

const MAX_STACK_LENGTH = 2000;
const MAX_CAUSES = 5;
/** Part of `stack` that is read, from its end: the frames follow the message, which has any length. */
const MAX_READ_LENGTH = 8000;
/** Frame of a file, as V8 writes it: function, path or file URL, line and column. */
const FRAME = /^ +at (?:(.*) \()?(?:async )?((?:file:\/\/)?\/.*):(\d+:\d+)\)?$/;
/** Folder of the code that calls handlers. */
const CALLER = `${import.meta.dirname}/`;

/**
 * Returns the name, the frames in the user's files and the causes of an error, as text. Undefined if it has no such frame
 * and no cause. A `PermanentError` or `RetryAfter` has none unless it has a cause, because it is thrown on purpose.
 */
export function stackOf(
  thrown: unknown,
  { permanent, retryAfterMs }: Partial<AttemptFailure> = {},
): string | undefined {
  const isDeliberate = permanent || retryAfterMs !== undefined;
  const lines = isDeliberate ? [] : framesOf(thrown);
  let cause = property(thrown, 'cause');
  for (let depth = 0; cause != null && depth < MAX_CAUSES; depth++, cause = property(cause, 'cause')) {
    const name = property(cause, 'name');
    lines.push(`caused by ${name === undefined ? '' : `${describe(name)}: `}${describe(cause)}`, ...framesOf(cause));
  }
  if (lines.length === 0) return undefined;
  return [describe(property(thrown, 'name') ?? 'Error'), ...lines].join('\n').slice(0, MAX_STACK_LENGTH);
}

/** Frames in packages are left out, unless there are no others. */
function framesOf(thrown: unknown): string[] {
  const stack = property(thrown, 'stack');
  if (typeof stack !== 'string') return [];
  const frames: { file: string; text: string }[] = [];
  for (const line of stack.slice(-MAX_READ_LENGTH).split('\n')) {
    const [, name, source = '', position] = FRAME.exec(line) ?? [];
    if (position === undefined) continue;
    const file = pathOf(source);
    if (file.startsWith(CALLER)) break;
    const path = relative('', file);
    const place = `${path.startsWith('..') ? file : path}:${position}`;
    frames.push({ file, text: `    at ${name === undefined ? place : `${name} (${place})`}` });
  }
  const own = frames.filter(({ file }) => !file.includes('/node_modules/'));
  return (own.length > 0 ? own : frames).map(({ text }) => text);
}

function pathOf(source: string): string {
  try {
    return fileURLToPath(source);
  } catch {
    return source;
  }
}
