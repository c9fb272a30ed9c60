import { createHash } from 'node:crypto';
import { isObject, parseJsonObject } from './json-object.ts';

/** A body of `POST /tasks`, with the other fields of its message. */
export interface SubmittedBody {
  bytes: Uint8Array<ArrayBuffer>;
  id: string;
  /** Unix seconds. */
  createdAt: number;
  /** Whether the submission has an idempotency key. */
  hasKey: boolean;
}

/** Message text and fingerprint of a submission, or the name of the error in its body. */
export type ParsedSubmission = { text: string; fingerprint: string | undefined } | { error: SubmissionError };

/** First message of the thread that parses large bodies, sent once its code is loaded. */
export const READY = 'ready';

export type SubmissionError = 'invalidJson' | 'dataTooDeep' | 'actionRequired' | 'dataMustBeObject';

/** Most levels of nested arrays and objects. The time of `JSON.stringify` grows with the square of the depth. */
const MAX_DEPTH = 512;

const [QUOTE, BACKSLASH, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = Buffer.from('"\\{}[]');

/**
 * Turns a body into the JSON text of the specification's queued task message. `data` is serialized again from the parsed values; the
 * guide for clients lists the differences. Submissions of the same content have the same fingerprint, regardless of white space.
 */
export function parseSubmission({ bytes, id, createdAt, hasKey }: SubmittedBody): ParsedSubmission {
  const depthError = checkDepth(bytes);
  if (depthError !== undefined) return { error: depthError };
  const body = parseJsonObject(bytes);
  if (body === undefined) return { error: 'invalidJson' };
  const { action, data = {} } = body;
  if (typeof action !== 'string') return { error: 'actionRequired' };
  if (!isObject(data)) return { error: 'dataMustBeObject' };
  const content = `"action":${JSON.stringify(action)},"data":${JSON.stringify(data)}`;
  return {
    text: `{"id":${JSON.stringify(id)},${content},"created_at":${createdAt}}`,
    fingerprint: hasKey ? createHash('sha256').update(`{${content}}`).digest('base64') : undefined,
  };
}

/** Returns a message text with another id. */
export function withId(text: string, id: string): string {
  const endOfId = text.indexOf('",');
  return `{"id":${JSON.stringify(id)}${text.slice(endOfId + 1)}`;
}

/** Detects deep nesting before `JSON.parse`, which takes ten times as long for a nested body as for others of the same size. */
function checkDepth(body: Uint8Array): SubmissionError | undefined {
  if (body.length <= MAX_DEPTH) return undefined;
  let depth = 0;
  let deepest = 0;
  let quoted = false;
  for (let index = 0; index < body.length; index++) {
    const byte = body[index];
    if (quoted) {
      if (byte === BACKSLASH) index++;
      else if (byte === QUOTE) quoted = false;
    } else if (byte === QUOTE) quoted = true;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) deepest = Math.max(deepest, ++depth);
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--;
  }
  if (deepest <= MAX_DEPTH) return undefined;
  return depth === 0 ? 'dataTooDeep' : 'invalidJson';
}
