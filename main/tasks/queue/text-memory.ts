/** Matches a character outside Latin-1. V8 uses two bytes per character for a string with such a character, and one for any other. */
const BEYOND_LATIN1 = /[^\0-\xff]/;

/**
 * Returns the memory used by the body and reason of a message or dead letter, in bytes. All
 * other memory is bounded by the limits on the number of messages and dead letters.
 */
export function textMemoryBytes({ body, reason }: { body: string; reason: string | null }): number {
  return textBytes(body) + (reason === null ? 0 : textBytes(reason));
}

/** Returns the memory used by a string, in bytes. Fast for one-byte strings, because V8 knows that the expression cannot match them. */
function textBytes(text: string): number {
  return BEYOND_LATIN1.test(text) ? 2 * text.length : text.length;
}
