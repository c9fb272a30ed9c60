import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

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
