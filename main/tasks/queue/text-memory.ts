/** A character outside Latin-1. V8 stores a string with such a character in two bytes per character, any other in one. */
const BEYOND_LATIN1 = /[^\0-\xff]/;

/** Returns the memory in bytes of the texts of a message or dead letter. Its other memory is limited by the bounds on their number. */
export function textMemoryBytes({ body, reason }: { body: string; reason: string | null }): number {
  return textBytes(body) + (reason === null ? 0 : textBytes(reason));
}

/** Fast for one-byte strings, because V8 knows that the expression cannot match them. */
function textBytes(text: string): number {
  return BEYOND_LATIN1.test(text) ? 2 * text.length : text.length;
}
