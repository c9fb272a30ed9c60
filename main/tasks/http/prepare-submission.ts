import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Submission } from '../../../db/task-store.ts';
import { IDEMPOTENCY_KEY, parseBatch } from '../../../workers/submissions/parse-batch.ts';
import { DEFERRED, messageOf, parseSubmission } from '../../../workers/submissions/parse-submission.ts';
import { catalogue, type ErrorName, HttpError } from '../../http/errors.ts';
import type { BodyBuffer } from '../../http/request-body.ts';
import type { RouterOptions } from './routing.ts';

/** Maximum size of a body that the main thread parses, which takes up to 3 ms. A worker thread parses larger bodies. */
export const SMALL_BODY_BYTES = 16 * 1024;

const LONGEST_WAIT_SECONDS = 30;

type Preparation = Pick<RouterOptions, 'submissions' | 'check' | 'clock' | 'newTaskId'>;

/** Converts a request to a queue message and its idempotency key. @throws {HttpError} if the key or body is invalid */
export async function prepare(
  body: BodyBuffer,
  headers: IncomingHttpHeaders,
  userId: string | undefined,
  { submissions, check, clock, newTaskId }: Preparation,
): Promise<Submission> {
  const key = idempotencyKey(headers, userId);
  const id = newTaskId();
  const submitted = { id, now: clock.now(), hasKey: key !== undefined };
  const isSmall = body.length <= SMALL_BODY_BYTES;
  const local = isSmall ? parseSubmission({ ...submitted, bytes: body.bytes }, check) : DEFERRED;
  const parsed = local === DEFERRED ? await submissions.parse({ ...submitted, bytes: body.ownBytes() }) : local;
  if ('error' in parsed) throw new HttpError(parsed.error, { fields: parsed.field });
  const { message, fingerprint } = parsed;
  return { message, key: key && fingerprint ? { key, fingerprint } : undefined };
}

/** Converts a request to the submissions of a batch. @throws {HttpError} with every wrong submission */
export async function prepareBatch(
  body: BodyBuffer,
  headers: IncomingHttpHeaders,
  userId: string | undefined,
  { submissions, check, clock, newTaskId }: Preparation,
): Promise<Submission[]> {
  if (headers['idempotency-key'] !== undefined) throw new HttpError('keyOfBatch');
  const now = clock.now();
  const local = body.length <= SMALL_BODY_BYTES ? parseBatch({ now, bytes: body.bytes }, check) : DEFERRED;
  const parsed = local === DEFERRED ? await submissions.parse({ now, bytes: body.ownBytes() }) : local;
  // The checks took too long.
  if ('field' in parsed) throw new HttpError('invalidBatch', { fields: { errors: [] } });
  if ('error' in parsed) throw new HttpError(parsed.error);
  if ('wrong' in parsed) throw invalidBatch(parsed.wrong.map(({ field, ...wrong }) => ({ ...wrong, ...field })));
  return parsed.drafts.map((draft) => {
    const { key, fingerprint = '' } = draft;
    const ownKey = key && { key: keyOfUser(key, userId), fingerprint };
    return { message: messageOf(newTaskId(), draft), key: ownKey || undefined };
  });
}

/** Returns the error of a batch that is refused because of these submissions. */
export function invalidBatch(wrong: readonly { index: number; error: ErrorName }[]): HttpError {
  const errors = wrong.map(({ error, ...details }) => ({ ...details, error: catalogue[error][1] }));
  return new HttpError('invalidBatch', { fields: { errors } });
}

/** Returns the request's idempotency key. @throws {HttpError} if it is malformed */
export function idempotencyKey(headers: IncomingHttpHeaders, userId?: string): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) throw new HttpError('invalidIdempotencyKey');
  return keyOfUser(key, userId);
}

/** Appends a hash of the user to a key. */
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
