import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { HttpError } from '../http/errors.ts';
import { isObject } from '../http/json-body.ts';
import type { IdempotencyKey } from './queue/driver.ts';

/** What a client asks for with `POST /tasks`. */
export interface Submission {
  action: string;
  data: Record<string, unknown>;
}

/** @throws {HttpError} `action required`, `data must be an object` */
export function parseSubmission({ action, data = {} }: Record<string, unknown>): Submission {
  if (typeof action !== 'string') throw new HttpError('actionRequired');
  if (!isObject(data)) throw new HttpError('dataMustBeObject');
  return { action, data };
}

/**
 * The JSON text of the specification's queued task message: what is queued, handed to a thread, and stored as `payload`.
 *
 * @param created_at Unix seconds
 * @throws {HttpError} when `data` is nested too deeply
 */
export function messageText(id: string, { action, data }: Submission, created_at: number): string {
  return stringify({ id, action, data, created_at });
}

/**
 * The header `Idempotency-Key` of a submission, where it has one. Submissions of the same content have the same
 * fingerprint, however their JSON is spaced.
 *
 * @throws {HttpError} when the key cannot be one
 */
export function idempotencyKey(headers: IncomingHttpHeaders, { action, data }: Submission): IdempotencyKey | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key)) throw new HttpError('invalidIdempotencyKey');
  const fingerprint = createHash('sha256').update(stringify({ action, data })).digest('base64');
  return { key, fingerprint };
}

function stringify(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    // JSON can be parsed at any depth, but not written.
    throw cause instanceof RangeError ? new HttpError('dataTooDeep', { cause }) : cause;
  }
}
