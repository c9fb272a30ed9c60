import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { IdempotencyKey, Message } from '../../../db/task-store.ts';
import { DEFERRED, parseSubmission } from '../../../workers/submissions/parse-submission.ts';
import { HttpError } from '../../http/errors.ts';
import type { BodyBuffer } from '../../http/request-body.ts';
import type { RouterOptions } from './routing.ts';

/** Maximum size of a body that the main thread parses, which takes up to 3 ms. A worker thread parses larger bodies. */
export const SMALL_BODY_BYTES = 16 * 1024;

const LONGEST_WAIT_SECONDS = 30;

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/** Converts a request to a queue message and its idempotency key. @throws {HttpError} if the key or body is invalid */
export async function prepare(
  body: BodyBuffer,
  headers: IncomingHttpHeaders,
  userId: string | undefined,
  { submissions, check, clock, newTaskId }: Pick<RouterOptions, 'submissions' | 'check' | 'clock' | 'newTaskId'>,
): Promise<{ message: Message; key: IdempotencyKey | undefined }> {
  const key = idempotencyKey(headers, userId);
  const id = newTaskId();
  const submitted = { id, createdAt: Math.floor(clock.now() / 1000), hasKey: key !== undefined };
  const isSmall = body.length <= SMALL_BODY_BYTES;
  const local = isSmall ? parseSubmission({ ...submitted, bytes: body.bytes }, check) : DEFERRED;
  const parsed = local === DEFERRED ? await submissions.parse({ ...submitted, bytes: body.ownBytes() }) : local;
  if ('error' in parsed) throw new HttpError(parsed.error, { fields: parsed.field });
  const { message, fingerprint } = parsed;
  return { message, key: key && fingerprint ? { key, fingerprint } : undefined };
}

/** Returns the request's idempotency key, with a hash of `userId` appended. @throws {HttpError} if it is malformed */
export function idempotencyKey(headers: IncomingHttpHeaders, userId?: string): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) throw new HttpError('invalidIdempotencyKey');
  if (userId === undefined) return key;
  // Keys from clients cannot contain a space, so a key with an appended hash never equals a key without one.
  return `${key} ${createHash('sha256').update(userId).digest('base64')}`;
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
