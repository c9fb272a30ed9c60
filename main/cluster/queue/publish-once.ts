import { KEY_LIFETIME_MS } from '../../tasks/queue/idempotency-keys.ts';
import { type IdempotencyKey, KeyInUse, KeyReused, QueueFull } from '../../tasks/queue/queue.ts';
import type { RevisionedStore } from './revisioned-store.ts';
import { digest } from './stream.ts';

/** Reservation of an idempotency key for a submission. */
export interface KeyRecord {
  fingerprint: string;
  taskId: string;
  /** Time of the reservation, in milliseconds since the epoch. */
  acceptedAt: number;
  /** Whether the reservation is complete, that is, the task's message is known to be stored. */
  taken: boolean;
  /** `Nats-Msg-Id` of the task's message. */
  messageId: string;
}

/** Age at which a later submission can take over the reservation of an idempotency key. Longer than a publish takes. */
const RESERVATION_TIMEOUT_MS = 3000;

/**
 * Publishes a submission unless its idempotency key was already accepted. Returns the id of the accepted task. The key
 * is reserved by compare-and-set, so only one of several concurrent submissions succeeds. If it is unknown whether the
 * message was stored, the next submission reuses the `Nats-Msg-Id`, by which JetStream detects a duplicate.
 *
 * @param publish returns the id of the stored task, or undefined for a duplicate message that has left the stream
 * @throws {KeyReused | KeyInUse | QueueFull}
 */
export async function publishOnce(
  records: Pick<RevisionedStore<KeyRecord>, 'get' | 'put' | 'remove'>,
  { key, fingerprint }: IdempotencyKey,
  taskId: string,
  publish: (messageId: string, taskId: string) => Promise<string | undefined>,
): Promise<string> {
  const name = digest(key);
  const found = await records.get(name);
  const now = Date.now();
  const earlier = found && now - found.value.acceptedAt < KEY_LIFETIME_MS ? found.value : undefined;
  if (earlier !== undefined) {
    if (earlier.fingerprint !== fingerprint) throw new KeyReused('the idempotency key belongs to another submission');
    if (earlier.taken) return earlier.taskId;
    if (now - earlier.acceptedAt < RESERVATION_TIMEOUT_MS) throw keyInUse();
  }
  const { messageId, taskId: firstId } = earlier ?? { messageId: taskId, taskId };
  const record = { fingerprint, taskId: firstId, acceptedAt: now, taken: false, messageId };
  const revision = await records.put(name, record, found?.revision ?? 0);
  if (revision === undefined) throw keyInUse();
  try {
    const id = (await publish(messageId, firstId)) ?? firstId;
    // A failed write can be ignored, because the next submission with the key finds the task by its `Nats-Msg-Id`.
    await records.put(name, { ...record, taskId: id, taken: true }, revision).catch(() => {});
    return id;
  } catch (error) {
    // Frees the key if the queue is full, unless an earlier submission with the key may have stored the message.
    if (error instanceof QueueFull && earlier === undefined) await records.remove(revision).catch(() => {});
    throw error;
  }
}

function keyInUse(): KeyInUse {
  return new KeyInUse('the submission with this idempotency key is under way');
}
