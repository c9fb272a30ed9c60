import { createHash } from 'node:crypto';
import type { WrongField } from './data-schemas.ts';
import { isObject, parseJsonObject } from './json-object.ts';

/** A body of `POST /tasks`, with the id and creation time of the new task. */
export interface SubmittedBody {
  bytes: Uint8Array<ArrayBuffer>;
  id: string;
  /** Creation time of the task in Unix seconds. */
  createdAt: number;
  /** Whether the request has an idempotency key, which requires a fingerprint of the body. */
  hasKey: boolean;
}

/**
 * Task message as JSON text, or the refusal of an invalid body. `fingerprint` is set if the request has an idempotency
 * key.
 */
export type ParsedSubmission = { text: string; fingerprint: string | undefined } | Refusal;

/** Reason why a body is refused. `field` is the first wrong field of `data`, set only for `invalidData`. */
export interface Refusal {
  error: SubmissionError;
  field?: WrongField;
}

/** Checks an action and its data. Returns undefined if both are accepted, or `Other` if the check makes no decision. */
export type SubmissionCheck<Other = never> = (action: string, data: object) => Refusal | Other | undefined;

/**
 * Returned by a {@link MainThreadCheck} if checking the data needs a time limit. The submission thread then checks the
 * data.
 */
export const DEFERRED = 'deferred';

/** Check that runs on the main thread. It may return {@link DEFERRED}. */
export type MainThreadCheck = SubmissionCheck<typeof DEFERRED>;

/** Sent by the submission thread once it is ready to parse bodies. */
export const READY = 'ready';

/** Sent by the submission thread before a check that needs a time limit. `checking` is the task's action. */
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

/** Maximum nesting depth of a body. Limited, because `JSON.stringify` takes time quadratic in the depth. */
const MAX_DEPTH = 512;

const [QUOTE, BACKSLASH, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = Buffer.from('"\\{}[]');

/**
 * Parses a body of `POST /tasks` and returns the queued task message as JSON text. Bodies that differ only in
 * whitespace have the same fingerprint. If `check` returns a value other than undefined, this value is returned instead
 * of the message.
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

/** Returns the action in the JSON text of a task message, or undefined if `parseSubmission` did not write the text. */
export function actionOf(text: string): string | undefined {
  const start = text.indexOf(BEFORE_ACTION) + BEFORE_ACTION.length - 1;
  if (start < BEFORE_ACTION.length - 1) return undefined;
  // Searches without a regular expression, which would need memory proportional to the length of the action.
  let end = start;
  do end = text.indexOf('"', end + 1);
  while (isEscaped(text, end));
  return JSON.parse(text.slice(start, end + 1));
}

const BEFORE_ACTION = '","action":"';

/** Maximum number of characters that {@link actionStart} returns. */
export const ACTION_LENGTH = 256;
/**
 * Number of characters that {@link actionStart} reads: enough for {@link ACTION_LENGTH} characters that are all
 * escaped.
 */
const READ_LENGTH = 2048;

/**
 * Returns the first {@link ACTION_LENGTH} characters of the action of a task message, or undefined if the text is not
 * in the format of `parseSubmission`. The text may be cut after `READ_LENGTH` characters.
 */
export function actionStart(text: string): string | undefined {
  const read = text.slice(0, READ_LENGTH);
  const start = read.indexOf(BEFORE_ACTION);
  if (start < 0) return undefined;
  const first = start + BEFORE_ACTION.length;
  let end = first - 1;
  do end = read.indexOf('"', end + 1);
  while (isEscaped(read, end));
  if (end < 0 && read.length < READ_LENGTH) return undefined;
  try {
    // Parsing copies the action. A slice would keep the whole text in memory.
    return cut(JSON.parse(`"${read.slice(first, end < 0 ? endOfCharacters(read) : end)}"`), ACTION_LENGTH);
  } catch {
    return undefined;
  }
}

/** Returns the length of a truncated JSON string, excluding an incomplete escape sequence at its end. */
function endOfCharacters(text: string): number {
  const last = text.lastIndexOf('\\');
  return last < text.length - 6 || isEscaped(text, last) ? text.length : last;
}

/** Returns the first `length` UTF-16 code units of a text, without half a surrogate pair at the end. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const isHalf = /[\ud800-\udbff]/.test(text[length - 1] as string) && /[\udc00-\udfff]/.test(text[length] as string);
  return text.slice(0, isHalf ? length - 1 : length);
}

/** Whether the character at `index` follows an odd number of backslashes. */
function isEscaped(text: string, index: number): boolean {
  let first = index;
  while (text[first - 1] === '\\') first--;
  return (index - first) % 2 === 1;
}

/**
 * Returns an error if a body is nested too deeply. Runs before `JSON.parse`, which takes ten times longer for such a
 * body.
 */
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
