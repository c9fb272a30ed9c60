import { HttpError } from '../../http/errors.ts';
import { KeyInUse, KeyReused, QueueFull } from '../queue/queue.ts';

/** Seconds after which a client may try again when the queue was full, or its submission under way. */
const RETRY_AFTER = { 'Retry-After': '1' };

/** What a client is told when the queue does not take a task: `failed to queue task` of the specification, mostly. */
export function queueError(cause: unknown): HttpError {
  if (cause instanceof KeyReused) return new HttpError('idempotencyKeyReused', { cause });
  if (cause instanceof KeyInUse) return new HttpError('idempotencyKeyInUse', { cause, headers: RETRY_AFTER });
  const overload = cause instanceof QueueFull;
  return new HttpError('failedToQueueTask', { cause, overload, headers: overload ? RETRY_AFTER : {} });
}
