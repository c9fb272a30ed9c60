import { createHash } from 'node:crypto';
import type { WrongField } from './data-schemas.ts';
import { isObject, parseJsonObject } from './json-object.ts';

/** A body of `POST /tasks`, with the id and creation time for its task message. */
export interface SubmittedBody {
  bytes: Uint8Array<ArrayBuffer>;
  id: string;
  /** Creation time of the task in Unix seconds. */
  createdAt: number;
  /** Whether the request has an idempotency key, which requires a fingerprint of the body. */
  hasKey: boolean;
}

/** The task message as JSON text, with a fingerprint if the request has an idempotency key, or the refusal of an invalid body. */
export type ParsedSubmission = { text: string; fingerprint: string | undefined } | Refusal;

/** Why a body is refused: the name of the error and, for `invalidData`, the first wrong field of `data`. */
export interface Refusal {
  error: SubmissionError;
  field?: WrongField;
}

/**
 * Checks an action and its data against the rules for submissions. Returns undefined if they are accepted, or `Other` if the check
 * makes no decision.
 */
export type SubmissionCheck<Other = never> = (action: string, data: object) => Refusal | Other | undefined;

/** Result of the main thread's check for data that only the submission thread may check, because the check needs a time limit. */
export const DEFERRED = 'deferred';

/** Check on the main thread. */
export type MainThreadCheck = SubmissionCheck<typeof DEFERRED>;

/** First message from the thread that parses large bodies, sent once the thread has loaded its code. */
export const READY = 'ready';

/** Message from the submission thread before it starts a check that needs a time limit. `checking` is the action. */
export interface CheckStarted {
  checking: string;
}

export type SubmissionError =
  | 'invalidJson'
  | 'dataTooDeep'
  | 'actionRequired'
  | 'dataMustBeObject'
  | 'unknownAction'
  | 'invalidData';

/** Maximum nesting depth of arrays and objects in a body. `JSON.stringify` takes time quadratic in the depth. */
const MAX_DEPTH = 512;

const [QUOTE, BACKSLASH, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = Buffer.from('"\\{}[]');

/**
 * Parses a body and returns the specification's queued task message as JSON text. `data` is parsed and serialized again; the client
 * guide lists how its text may change. Bodies with equal content have the same fingerprint, regardless of whitespace. Any result of
 * `check` other than undefined is returned instead.
 */
export function parseSubmission<Other = never>(
  { bytes, id, createdAt, hasKey }: SubmittedBody,
  check?: SubmissionCheck<Other>,
): ParsedSubmission | Other {
  const depthError = checkDepth(bytes);
  if (depthError !== undefined) return { error: depthError };
  const body = parseJsonObject(bytes);
  if (body === undefined) return { error: 'invalidJson' };
  const { action, data = {} } = body;
  if (typeof action !== 'string') return { error: 'actionRequired' };
  if (!isObject(data)) return { error: 'dataMustBeObject' };
  const refusal = check?.(action, data);
  if (refusal !== undefined) return refusal;
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

/** Returns the action of a task message's JSON text, or undefined if the text is not in the format of `parseSubmission`. */
export function actionOf(text: string): string | undefined {
  const start = text.indexOf(BEFORE_ACTION) + BEFORE_ACTION.length - 1;
  if (start < BEFORE_ACTION.length - 1) return undefined;
  // A regular expression would need memory proportional to the length of the action.
  let end = start;
  do end = text.indexOf('"', end + 1);
  while (isEscaped(text, end));
  return JSON.parse(text.slice(start, end + 1));
}

const BEFORE_ACTION = '","action":"';

/** Whether the character at `index` follows an odd number of backslashes. */
function isEscaped(text: string, index: number): boolean {
  let first = index;
  while (text[first - 1] === '\\') first--;
  return (index - first) % 2 === 1;
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
