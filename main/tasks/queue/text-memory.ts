import type { AttemptHistory } from '../../../db/attempt-history.ts';

/**
 * Matches a character outside Latin-1. V8 stores strings with such a character in two bytes per character, others in
 * one.
 */
const BEYOND_LATIN1 = /[^\0-\xff]/;

/**
 * Returns the memory used by the texts of a message or dead letter, in bytes: its body, its reason and its history. All
 * other memory is bounded by the limits on the number of messages and dead letters. Equal reasons share a string (see
 * `sharedReason`), so they count once.
 */
export function textMemoryBytes(texts: { body: string; reason: string | null; history?: AttemptHistory }): number {
  const { body, reason, history = [] } = texts;
  const reasons = new Set(history.map((attempt) => attempt.reason));
  if (reason !== null) reasons.add(reason);
  let bytes = textBytes(body);
  for (const each of reasons) bytes += textBytes(each);
  return bytes;
}

/** Returns the memory used by a string, in bytes. */
function textBytes(text: string): number {
  return BEYOND_LATIN1.test(text) ? 2 * text.length : text.length;
}
