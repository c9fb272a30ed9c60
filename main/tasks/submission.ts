import { createHash, randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { HttpError } from '../http/errors.ts';
import { isObject } from '../http/json-body.ts';
import type { IdempotencyKey, Message } from './queue/driver.ts';

/** What a client asks for with `POST /tasks`. */
export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** Form of the header `Idempotency-Key`. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/**
 * The message and the idempotency key of a submission. The parsed body, which may take many times the memory of its
 * text, is not needed after this.
 *
 * @param userId the user that submits; undefined without access control
 * @throws {HttpError} if the body or the key is not valid
 */
export function prepare(
  body: Record<string, unknown>,
  headers: IncomingHttpHeaders,
  userId?: string,
): { message: Message; key: IdempotencyKey | undefined } {
  const submission = parseSubmission(body);
  const key = idempotencyKey(headers, submission, userId);
  const id = randomUUID();
  return { message: { id, body: messageText(id, submission, Math.floor(Date.now() / 1000)) }, key };
}

/** @throws {HttpError} `action required`, `data must be an object` */
export function parseSubmission(body: Record<string, unknown>): Submission {
  const { action, data = {} } = body;
  if (typeof action !== 'string') throw new HttpError('actionRequired');
  if (!isObject(data)) throw new HttpError('dataMustBeObject');
  return { action, data };
}

/**
 * The JSON text of the specification's queued task message: what is queued, handed to a thread, and stored as `payload`.
 * The text holds the parsed values, not the submitted text of `data`: the guide for clients lists what changes.
 *
 * @param created_at Unix seconds
 */
function messageText(id: string, { action, data }: Submission, created_at: number): string {
  return JSON.stringify({ id, action, data, created_at });
}

/**
 * The header `Idempotency-Key` of a submission, where it has one. Submissions of the same content have the same
 * fingerprint, however their JSON is spaced.
 *
 * @param userId scope of the key: the same key of two users names two submissions
 * @throws {HttpError} when the key cannot be one
 */
export function idempotencyKey(
  headers: IncomingHttpHeaders,
  { action, data }: Submission,
  userId?: string,
): IdempotencyKey | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) throw new HttpError('invalidIdempotencyKey');
  return { key: scopedKey(key, userId), fingerprint: digest(JSON.stringify({ action, data })) };
}

/** The key as the queue stores it. A key has no space, so scoped and other keys never collide. */
function scopedKey(key: string, userId: string | undefined): string {
  return userId === undefined ? key : `${key} ${digest(userId)}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}
