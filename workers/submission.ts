import { createHash } from 'node:crypto';
import { isObject, parseJsonObject } from './json-object.ts';

/** A body of `POST /tasks`, with the id and the creation time of the task message that is made from it. */
export interface SubmittedBody {
  bytes: Uint8Array<ArrayBuffer>;
  id: string;
  /** Creation time of the task in Unix seconds. */
  createdAt: number;
  /** Whether the request has an idempotency key, which requires a fingerprint of the body. */
  hasKey: boolean;
}

/** The task message as JSON text, and the fingerprint if the request has an idempotency key, or the name of the body's error. */
export type ParsedSubmission = { text: string; fingerprint: string | undefined } | { error: SubmissionError };

/** First message of the thread that parses large bodies, sent when the thread has loaded its code. */
export const READY = 'ready';

export type SubmissionError = 'invalidJson' | 'dataTooDeep' | 'actionRequired' | 'dataMustBeObject';

/** Maximum depth of nested arrays and objects in a body. The time of `JSON.stringify` grows with the square of the depth. */
const MAX_DEPTH = 512;

const [QUOTE, BACKSLASH, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = Buffer.from('"\\{}[]');

/**
 * Parses a body and returns the specification's queued task message as JSON text. `data` is parsed and serialized again; the guide for
 * clients lists how its text may change. Bodies with equal content have the same fingerprint, regardless of white space.
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

/** Returns the JSON text of a task message with its id replaced by `id`. */
export function withId(text: string, id: string): string {
  const endOfId = text.indexOf('",');
  return `{"id":${JSON.stringify(id)}${text.slice(endOfId + 1)}`;
}

/** Returns an error for a body that is nested too deeply. Called before `JSON.parse`, which takes ten times longer for such a body. */
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
