/** A character outside Latin-1. V8 stores a string with such a character in two bytes per character, any other in one. */
const BEYOND_LATIN1 = /[^\0-\xff]/;

/** Returns the bytes of memory of the body and reason of a message or dead letter. The bounds on their number limit other memory. */
export function textMemoryBytes({ body, reason }: { body: string; reason: string | null }): number {
  return textBytes(body) + (reason === null ? 0 : textBytes(reason));
}

/** Returns the bytes of memory of a string. Fast for one-byte strings, because V8 knows that the expression cannot match them. */
function textBytes(text: string): number {
  return BEYOND_LATIN1.test(text) ? 2 * text.length : text.length;
}
