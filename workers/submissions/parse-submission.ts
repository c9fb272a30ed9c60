import { createHash } from 'node:crypto';
import type { Message } from '../../db/task-store.ts';
import { isObject, parseJsonObject } from '../shared/json-object.ts';
import type { HandlersManifest } from '../tasks/messages.ts';
import { misspeltOption, type OptionError, submissionOptions, type WrongField } from './submission-options.ts';

export interface SubmittedBody {
  bytes: Uint8Array<ArrayBuffer>;
  id: string;
  /** Time of the submission in milliseconds since the epoch. */
  now: number;
  hasKey: boolean;
  /** Allowed hosts of callbacks. None if undefined. */
  callbackHosts?: readonly string[] | undefined;
}

/** `isInBatch` is true for a submission whose idempotency key is a field of it, not a header. */
export type DraftContext = Omit<SubmittedBody, 'bytes' | 'id'> & { isInBatch?: boolean };

/** Message to queue, or the refusal of a body. `fingerprint` is set if there is an idempotency key. */
export type ParsedSubmission = { message: Message; fingerprint: string | undefined } | Refusal;

/** `field` has further fields of the response: the wrong field, or the actions that may be meant. */
export interface Refusal {
  error: SubmissionError;
  field?: WrongField | { nearest: readonly string[] };
}

/** Returns undefined if the action and its data are accepted. `Other` is a result that leaves the decision open. */
export type SubmissionCheck<Other = never> = (action: string, data: object) => Refusal | Other | undefined;

/** Returned by a {@link MainThreadCheck} if the submission thread must check the data under a time limit. */
export const DEFERRED = 'deferred';

export type MainThreadCheck = SubmissionCheck<typeof DEFERRED>;

/** Sent by the submission thread once it can parse bodies. */
export const READY = 'ready';

/** Sent by the submission thread before a check that needs a time limit. `checking` is the action. */
export interface CheckStarted {
  checking: string;
}

export type SubmissionError =
  | 'invalidJson'
  | 'dataTooDeep'
  | 'actionRequired'
  | 'dataMustBeObject'
  | 'unknownAction'
  | 'invalidData'
  | 'unknownOption'
  | 'tasksRequired'
  | 'invalidIdempotencyKey'
  | OptionError;

/** Maximum nesting depth of a body, because `JSON.stringify` takes time quadratic in the depth. */
const MAX_DEPTH = 512;

const [QUOTE, BACKSLASH, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = Buffer.from('"\\{}[]');

/** Parses a body of `POST /tasks`. If `check` returns a refusal or `Other`, returns that result. */
export function parseSubmission<Other = never>(
  { bytes, id, ...submitted }: SubmittedBody,
  check?: SubmissionCheck<Other>,
): ParsedSubmission | Other {
  const body = parseBody(bytes);
  if ('error' in body) return body;
  const draft = draftOf(body.fields, submitted, check);
  return isDraft(draft) ? { message: messageOf(id, draft), fingerprint: draft.fingerprint } : draft;
}

/** Returns the fields of a body, which are none if it is no JSON object. */
export function parseBody(bytes: Uint8Array<ArrayBuffer>): { fields: Record<string, unknown> } | Refusal {
  const depthError = checkDepth(bytes);
  if (depthError !== undefined) return { error: depthError };
  const fields = parseJsonObject(bytes);
  return fields === undefined ? { error: 'invalidJson' } : { fields };
}

/** A submission whose task has no id yet. `fingerprint` is set if there is an idempotency key. */
export interface Draft {
  message: Omit<Message, 'id' | 'body'>;
  /** The task's JSON text after the id. */
  rest: string;
  fingerprint: string | undefined;
}

/** The fingerprint is a hash of the action, data and options without the white space between JSON tokens. */
export function draftOf<Other = never>(
  fields: Record<string, unknown>,
  { now, hasKey, isInBatch = false, callbackHosts }: DraftContext,
  check?: SubmissionCheck<Other>,
): Draft | Refusal | Other {
  const { action, data = {}, delay, run_at, priority, limit_key, callback_url } = fields;
  if (typeof action !== 'string') return { error: 'actionRequired' };
  if (!isObject(data)) return { error: 'dataMustBeObject' };
  const misspelt = misspeltOption(fields);
  if (misspelt !== undefined) {
    const isHeader = misspelt.meant === 'idempotency_key' && !isInBatch;
    const meant = isHeader ? 'the header Idempotency-Key' : misspelt.meant;
    return { error: 'unknownOption', field: { path: `/${misspelt.name}`, detail: `looks like ${meant}` } };
  }
  const options = submissionOptions(fields, now, callbackHosts, hasKey);
  if ('error' in options) return options;
  const refusal = check?.(action, data);
  if (refusal !== undefined) return refusal;
  const content = `"action":${JSON.stringify(action)},"data":${JSON.stringify(data)}`;
  return {
    message: { action: cut(action, ACTION_LENGTH), ...options },
    rest: `${content},"created_at":${Math.floor(now / 1000)}}`,
    fingerprint: hasKey ? fingerprintOf(content, { delay, run_at, priority, limit_key, callback_url }) : undefined,
  };
}

export function isDraft(value: unknown): value is Draft {
  return typeof value === 'object' && value !== null && 'rest' in value;
}

export function messageOf(id: string, { message, rest }: Draft): Message {
  return { id, ...message, body: `{"id":${JSON.stringify(id)},${rest}` };
}

function fingerprintOf(content: string, options: object): string {
  const given = JSON.stringify(options).slice(1, -1);
  return createHash('sha256')
    .update(`{${content}${given && `,${given}`}}`)
    .digest('base64');
}

/** Returns the message with the callback URL of its action, which has a short name, unless it has its own. */
export function withCallback(message: Message, actions: HandlersManifest): Message {
  const callbackUrl = message.callbackUrl ?? actions.get(message.action ?? '')?.callback;
  return callbackUrl === undefined ? message : { ...message, callbackUrl };
}

export function actionOf({ action, body }: Pick<Message, 'action' | 'body'>): string | undefined {
  // `cut` may have removed half a surrogate pair.
  return action === undefined || action.length < ACTION_LENGTH - 1 ? action : JSON.parse(body).action;
}

export const ACTION_LENGTH = 256;
/** Number of characters read to find {@link ACTION_LENGTH} characters that may all be escaped. */
const READ_LENGTH = 2048;
const ACTION = /","action":("(?:[^"\\]|\\[^u]|\\u[\da-f]{4})*)("?)/i;

/** Returns the first characters of the action in the text of a task message, of which the end may be missing. */
export function actionStart(text: string): string | undefined {
  const [, start, quote] = ACTION.exec(text.slice(0, READ_LENGTH)) ?? [];
  if (start === undefined || (quote === '' && text.length < READ_LENGTH)) return undefined;
  try {
    // Parsing copies the action, whereas a slice would keep the whole text in memory.
    return cut(JSON.parse(`${start}"`), ACTION_LENGTH);
  } catch {
    return undefined;
  }
}

/** Returns the first `length` UTF-16 code units of a text, without half a surrogate pair at the end. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const isHalf = /[\ud800-\udbff]/.test(text[length - 1] as string) && /[\udc00-\udfff]/.test(text[length] as string);
  return text.slice(0, isHalf ? length - 1 : length);
}

/** Runs before `JSON.parse`, which takes ten times longer for a deeply nested body. */
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

export type SubmittedBatch = Omit<SubmittedBody, 'id' | 'hasKey'>;

type KeyedDraft = Draft & { key: string | undefined };

/** The submissions in the order of the batch, or all wrong ones by their positions, or the refusal of the body. */
export type ParsedBatch = { drafts: KeyedDraft[] } | { wrong: (Refusal & { index: number })[] } | Refusal;

const MAX_LENGTH = 1000;

export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/** Parses a body of `POST /tasks/batch`. If `check` returns `Other` for a submission, returns that. */
export function parseBatch<Other = never>(
  { bytes, ...submitted }: SubmittedBatch,
  check?: SubmissionCheck<Other>,
): ParsedBatch | Other {
  const body = parseBody(bytes);
  if ('error' in body) return body;
  const { tasks, ...others } = body.fields;
  if (!Array.isArray(tasks) || tasks.length === 0 || tasks.length > MAX_LENGTH) return { error: 'tasksRequired' };
  const misplaced = misspeltOption(others, new Set());
  if (misplaced !== undefined) {
    const field = { path: `/${misplaced.name}`, detail: `belongs in each task, as ${misplaced.meant}` };
    return { error: 'unknownOption', field };
  }
  const drafts: KeyedDraft[] = [];
  const wrong: (Refusal & { index: number })[] = [];
  for (const [index, task] of tasks.entries()) {
    const { idempotency_key: key, ...fields } = isObject(task) ? task : {};
    const draft = isKey(key)
      ? draftOf(fields, { ...submitted, hasKey: key !== undefined, isInBatch: true }, check)
      : INVALID_KEY;
    if (isDraft(draft)) drafts.push({ ...draft, key: key as string | undefined });
    else if (isRefusal(draft)) wrong.push({ index, ...draft });
    else return draft;
  }
  return wrong.length > 0 ? { wrong } : { drafts };
}

const INVALID_KEY: Refusal = { error: 'invalidIdempotencyKey' };

function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null && 'error' in value;
}

function isKey(value: unknown): value is string | undefined {
  return value === undefined || (typeof value === 'string' && IDEMPOTENCY_KEY.test(value));
}
