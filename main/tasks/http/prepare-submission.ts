import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Message, Submission } from '../../../db/task-store.ts';
import type { Random } from '../../../workers/shared/clock.ts';
import {
  DEFERRED,
  IDEMPOTENCY_KEY,
  messageOf,
  parseBatch,
  parseSubmission,
  withCallback,
} from '../../../workers/submissions/parse-submission.ts';
import type { SubmissionRules } from '../../../workers/tasks/messages.ts';
import { catalogue, type ErrorName, HttpError } from '../../http/errors.ts';
import type { BodyBuffer } from '../../http/request-body.ts';
import type { RouterOptions } from './routing.ts';

/** Maximum size of a body that the main thread parses, which takes up to 3 ms. A worker thread parses larger bodies. */
export const SMALL_BODY_BYTES = 16 * 1024;

const LONGEST_WAIT_SECONDS = 30;

type SubmittedBytes = Pick<BodyBuffer, 'length' | 'ownBytes'> & { readonly bytes: Uint8Array<ArrayBuffer> };

/** Converts a request to a queue message and its idempotency key. @throws {HttpError} if the key or body is invalid */
export async function prepare(
  body: SubmittedBytes,
  headers: IncomingHttpHeaders,
  userId: string | undefined,
  { submissions, check, rules, callbackHosts, clock, newTaskId }: RouterOptions,
): Promise<Submission> {
  const key = idempotencyKey(headers, userId);
  const id = newTaskId();
  const submitted = { id, now: clock.now(), hasKey: key !== undefined, callbackHosts };
  const isSmall = body.length <= SMALL_BODY_BYTES;
  const local = isSmall ? parseSubmission({ ...submitted, bytes: body.bytes }, check) : DEFERRED;
  const parsed = local === DEFERRED ? await submissions.parse({ ...submitted, bytes: body.ownBytes() }) : local;
  if ('error' in parsed) throw new HttpError(parsed.error, { fields: parsed.field });
  const { fingerprint } = parsed;
  const message = withOrigin(parsed.message, traceparentOf(headers), userId, rules);
  return { message, key: key && fingerprint ? { key, fingerprint } : undefined };
}

/** Converts a request to the submissions of a batch. @throws {HttpError} with every wrong submission */
export async function prepareBatch(
  body: BodyBuffer,
  headers: IncomingHttpHeaders,
  userId: string | undefined,
  { submissions, check, rules, callbackHosts, clock, newTaskId }: RouterOptions,
): Promise<Submission[]> {
  if (headers['idempotency-key'] !== undefined) throw new HttpError('keyOfBatch');
  const submitted = { now: clock.now(), callbackHosts };
  const isSmall = body.length <= SMALL_BODY_BYTES;
  const local = isSmall ? parseBatch({ ...submitted, bytes: body.bytes }, check) : DEFERRED;
  const parsed = local === DEFERRED ? await submissions.parse({ ...submitted, bytes: body.ownBytes() }) : local;
  if ('error' in parsed) {
    // The checks of all submissions took too long together, so none of them is named.
    if (parsed.error === 'invalidData')
      throw new HttpError('invalidBatch', {
        fields: { errors: [], detail: 'took too long to check: send fewer tasks' },
      });
    throw new HttpError(parsed.error, { fields: parsed.field });
  }
  if ('wrong' in parsed) throw invalidBatch(parsed.wrong.map(({ field, ...wrong }) => ({ ...wrong, ...field })));
  const traceparent = traceparentOf(headers);
  return parsed.drafts.map((draft) => {
    const { key, fingerprint = '' } = draft;
    const ownKey = key && { key: keyOfUser(key, userId), fingerprint };
    return { message: withOrigin(messageOf(newTaskId(), draft), traceparent, userId, rules), key: ownKey || undefined };
  });
}

export function invalidBatch(wrong: readonly { index: number; error: ErrorName }[]): HttpError {
  const errors = wrong.map(({ error, ...details }) => ({ ...details, error: catalogue[error][1] }));
  return new HttpError('invalidBatch', { fields: { errors } });
}

function withOrigin(
  message: Message,
  traceparent: string | undefined,
  submitter: string | undefined,
  { actions }: SubmissionRules,
): Message {
  const reported = withCallback(message, actions);
  return traceparent === undefined && submitter === undefined ? reported : { ...reported, traceparent, submitter };
}

/** The fields of W3C Trace Context's version 00. A later version may have further ones. */
const TRACEPARENT = /^(?:00(?=.{53}$)|(?!00|ff)[\da-f]{2})-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}(?=$|-)/;

/** Returns the request's `traceparent`. A malformed one is ignored. */
function traceparentOf({ traceparent }: IncomingHttpHeaders): string | undefined {
  return typeof traceparent === 'string' ? TRACEPARENT.exec(traceparent)?.[0] : undefined;
}

/** Returns the request's idempotency key. @throws {HttpError} if it is malformed */
export function idempotencyKey(headers: IncomingHttpHeaders, userId?: string): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) throw new HttpError('invalidIdempotencyKey');
  return keyOfUser(key, userId);
}

function keyOfUser(key: string, userId: string | undefined): string {
  // Keys from clients cannot contain a space, so a key with an appended hash never equals a key without one.
  return userId === undefined ? key : `${key} ${createHash('sha256').update(userId).digest('base64')}`;
}

/** Parses the header `Prefer: wait=SECONDS` (RFC 7240). Returns 0 to 30, and 0 if the header is absent or malformed. */
export function preferredWait(headers: IncomingHttpHeaders): number {
  const { prefer } = headers;
  if (prefer === undefined) return 0;
  const preferences = (typeof prefer === 'string' ? prefer : prefer.join()).split(',');
  for (const preference of preferences) {
    const [, seconds] = /^\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;.*)?$/i.exec(preference) ?? [];
    if (seconds !== undefined) return Math.min(Number(seconds), LONGEST_WAIT_SECONDS);
  }
  return 0;
}

/** Number of consecutive ids with the same first four digits. */
const GROUP = 64;

/**
 * Returns a function that creates task ids (UUID v4). Consecutive ids are neighbours in an index on ids, so rows that
 * are committed together change one page of the index instead of a page each. 106 random bits remain within a group.
 */
export function taskIds({ uuid }: Pick<Random, 'uuid'>): () => string {
  let prefix = '';
  let left = 0;
  return () => {
    const id = uuid();
    if (left === 0) {
      prefix = id.slice(0, 4);
      left = GROUP;
    }
    left -= 1;
    return prefix + id.slice(4);
  };
}
