import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AttemptFailure, describe, property } from './thrown.ts';

/** Frame of a stack in a file. */
export interface Frame {
  name: string | undefined;
  file: string;
  /** Path, relative if it is below the working directory, with line and column. */
  place: string;
}

/** Frame as V8 writes it: function, path or file URL, line and column. */
const FRAME = /^ +at (?:(.*) \()?(?:async )?((?:file:\/\/)?\/.*):(\d+:\d+)\)?$/;
/** Folder of this program's own thread code, which calls the user's code and is called by it. */
const OWN_FOLDER = fileURLToPath(new URL('../', import.meta.url));

/** Returns the frames of the user's code and its packages, innermost first. */
export function framesOf(stack: string): Frame[] {
  const frames: Frame[] = [];
  for (const line of stack.split('\n')) {
    const [, name, source = '', position] = FRAME.exec(line) ?? [];
    if (position === undefined) continue;
    const file = pathOf(source);
    if (!file.startsWith(OWN_FOLDER)) frames.push({ name, file, place: `${shownPath(file)}:${position}` });
    else if (frames.length > 0) break;
  }
  return frames;
}

/** Returns the path of a file URL, or anything else unchanged. */
export function pathOf(source: string): string {
  try {
    return fileURLToPath(source);
  } catch {
    return source;
  }
}

/** Returns a path relative to the working directory if it is below. */
export function shownPath(file: string): string {
  const path = relative('', file);
  return path.startsWith('..') ? file : path;
}

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
