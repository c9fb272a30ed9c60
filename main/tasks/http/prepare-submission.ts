import { createHash, randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import {
  DEFERRED,
  type MainThreadCheck,
  type ParsedSubmission,
  parseSubmission,
  type SubmittedBody,
  withId,
} from '../../../workers/parse-submission.ts';
import type { BodyBuffer } from '../../http/body-buffer.ts';
import { HttpError } from '../../http/errors.ts';
import type { KeyedSubmission, Message } from '../queue/queue.ts';

/** Maximum size of a body that the main thread parses, which takes up to 3 ms. A worker thread parses larger bodies. */
export const SMALL_BODY_BYTES = 16 * 1024;

const LONGEST_WAIT_SECONDS = 30;

export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/** Converts a request to a queue message and its idempotency key. @throws {HttpError} if the key or body is invalid */
export async function prepare(
  body: BodyBuffer,
  headers: IncomingHttpHeaders,
  userId: string | undefined,
  parseInThread: (body: SubmittedBody) => Promise<ParsedSubmission>,
  check?: MainThreadCheck,
): Promise<{ message: Message; key: KeyedSubmission | undefined }> {
  const key = idempotencyKey(headers, userId);
  const id = randomUUID();
  const submitted = { id, createdAt: Math.floor(Date.now() / 1000), hasKey: key !== undefined };
  const isSmall = body.length <= SMALL_BODY_BYTES;
  const local = isSmall ? parseSubmission({ ...submitted, bytes: body.bytes }, check) : DEFERRED;
  const parsed = local === DEFERRED ? await parseInThread({ ...submitted, bytes: body.ownBytes() }) : local;
  if ('error' in parsed) throw new HttpError(parsed.error, { fields: parsed.field });
  const { text, fingerprint } = parsed;
  const createMessage = (otherId: string) => ({ id: otherId, body: withId(text, otherId) });
  return { message: { id, body: text }, key: key && fingerprint ? { key, fingerprint, createMessage } : undefined };
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
