import type { AttemptHistory } from '../../../db/attempt-history.ts';

/** V8 stores a string with any character outside Latin-1 in two bytes per character, other strings in one. */
const BEYOND_LATIN1 = /[^\0-\xff]/;

/** Returns the memory used by a message's texts, in bytes. Equal reasons count once, because they share a string. */
export function textMemoryBytes(texts: { body: string; reason: string | null; history?: AttemptHistory }): number {
  const { body, reason, history = [] } = texts;
  const reasons = new Set(history.map((attempt) => attempt.reason));
  if (reason !== null) reasons.add(reason);
  let bytes = textBytes(body);
  for (const each of reasons) bytes += textBytes(each);
  return bytes;
}

function textBytes(text: string): number {
  return BEYOND_LATIN1.test(text) ? 2 * text.length : text.length;
}
