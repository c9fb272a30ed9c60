import { HttpError } from '../../http/errors.ts';
import { KeyInUse, KeyReused, QueueFull } from '../queue/queue.ts';

/** Seconds until a client should retry, if the queue is full or a submission with the same key is in progress. */
const RETRY_AFTER = { 'Retry-After': '1' };

/** Maps an error of `publish` or `redrive` to an HTTP error: `failed to queue task` of the specification, unless a key conflicts. */
export function queueError(cause: unknown): HttpError {
  if (cause instanceof KeyReused) return new HttpError('idempotencyKeyReused', { cause });
  if (cause instanceof KeyInUse) return new HttpError('idempotencyKeyInUse', { cause, headers: RETRY_AFTER });
  const overload = cause instanceof QueueFull;
  return new HttpError('failedToQueueTask', { cause, overload, headers: overload ? RETRY_AFTER : {} });
}
