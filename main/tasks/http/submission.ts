import { createHash, randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { type ParsedSubmission, parseSubmission, type SubmittedBody, withId } from '../../../workers/submission.ts';
import type { BodyBuffer } from '../../http/body-buffer.ts';
import { HttpError } from '../../http/errors.ts';
import type { KeyedSubmission, Message } from '../queue/queue.ts';

/** Maximum size of a body that the main thread parses itself, in up to 3 ms. A worker thread would take 0.1 ms longer. */
export const SMALL_BODY_BYTES = 16 * 1024;

/** Upper bound on the time that a client may ask to wait for the end of its task (header `Prefer: wait=...`). */
const LONGEST_WAIT_SECONDS = 30;

/** Valid values of the header `Idempotency-Key`: 1 to 255 visible ASCII characters. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/**
 * Returns the queue message for a request's body, and the idempotency key of the request, which is separate for each user.
 * `parseLarge` parses a body larger than {@link SMALL_BODY_BYTES}, and may transfer its buffer.
 *
 * @throws {HttpError} if the key or the body is not valid
 */
export async function prepare(
  body: BodyBuffer,
  headers: IncomingHttpHeaders,
  userId: string | undefined,
  parseLarge: (body: SubmittedBody) => Promise<ParsedSubmission>,
): Promise<{ message: Message; key: KeyedSubmission | undefined }> {
  const key = idempotencyKey(headers, userId);
  const id = randomUUID();
  const submitted = { id, createdAt: Math.floor(Date.now() / 1000), hasKey: key !== undefined };
  const isSmall = body.length <= SMALL_BODY_BYTES;
  const parsed = isSmall
    ? parseSubmission({ ...submitted, bytes: body.bytes })
    : await parseLarge({ ...submitted, bytes: body.ownBytes() });
  if ('error' in parsed) throw new HttpError(parsed.error);
  const { text, fingerprint } = parsed;
  const createMessage = (otherId: string) => ({ id: otherId, body: withId(text, otherId) });
  return { message: { id, body: text }, key: key && fingerprint ? { key, fingerprint, createMessage } : undefined };
}

/** Returns a request's idempotency key, if any, followed by a hash of the user's id. @throws {HttpError} if the key is malformed */
export function idempotencyKey(headers: IncomingHttpHeaders, userId?: string): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) throw new HttpError('invalidIdempotencyKey');
  if (userId === undefined) return key;
  // The separator is a space, which no key contains, so a key with a user never equals a key without one.
  return `${key} ${createHash('sha256').update(userId).digest('base64')}`;
}

/** Returns the seconds that a client prefers to wait (`Prefer: wait=10`, RFC 7240), 30 at most; 0 if absent or malformed. */
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
