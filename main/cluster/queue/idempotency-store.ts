import { KEY_LIFETIME_MS } from '../../tasks/queue/idempotency-keys.ts';
import { type IdempotencyKey, KeyInUse, KeyReused, QueueFull } from '../../tasks/queue/queue.ts';
import { Conflict, type RevisionedStore } from './revisioned-store.ts';
import { digest } from './streams.ts';

/** Stored record of a submission with an idempotency key, also called the reservation of the key. */
export interface NatsKeyRecord {
  fingerprint: string;
  taskId: string;
  /** Time at which the key was reserved, in milliseconds since the epoch. */
  acceptedAt: number;
  /** Whether the task's message is known to be stored in the stream of tasks. */
  taken: boolean;
  /** `Nats-Msg-Id` of the task's message. */
  messageId: string;
}

/** Age from which another submission can take over a reservation, because the publish or the node must have failed. */
const RESERVATION_TIMEOUT_MS = 3000;

/**
 * Idempotency keys of all nodes. A key is reserved by compare-and-set before the message is published, so only one of several
 * concurrent submissions succeeds. If the publish ack or the node was lost, it is unknown whether the message was stored. The next
 * submission then takes over the reservation, with the same `Nats-Msg-Id` and task id. JetStream detects the duplicate for two
 * minutes. After that the message may be stored twice, but both copies write the same row.
 */
export class IdempotencyStore {
  readonly #records: RevisionedStore<NatsKeyRecord>;

  constructor(records: RevisionedStore<NatsKeyRecord>) {
    this.#records = records;
  }

  /**
   * Publishes a submission unless it was accepted before. Returns the id of the accepted task.
   *
   * @param publish publishes the message with this `Nats-Msg-Id` and task id. Fulfilled with the id of the stored task, or with
   *   undefined if the message is a duplicate of a message that has left the stream
   * @throws {KeyReused | KeyInUse | QueueFull}
   */
  async take(
    { key, fingerprint }: IdempotencyKey,
    taskId: string,
    publish: (messageId: string, taskId: string) => Promise<string | undefined>,
  ): Promise<string> {
    const name = digest(key);
    const found = await this.#records.get(name);
    const now = Date.now();
    const earlier = found && now - found.value.acceptedAt < KEY_LIFETIME_MS ? found.value : undefined;
    if (earlier !== undefined) {
      if (earlier.fingerprint !== fingerprint) throw new KeyReused('the idempotency key belongs to another submission');
      if (earlier.taken) return earlier.taskId;
      if (now - earlier.acceptedAt < RESERVATION_TIMEOUT_MS) throw keyInUse();
    }
    const messageId = earlier?.messageId ?? taskId;
    const firstId = earlier?.taskId ?? taskId;
    const record = { fingerprint, taskId: firstId, acceptedAt: now, taken: false, messageId };
    const revision = await this.#records.put(name, record, found?.revision ?? 0).catch((error) => {
      throw error instanceof Conflict ? keyInUse(error) : error;
    });
    try {
      const id = (await publish(messageId, firstId)) ?? firstId;
      // If this write fails, the next submission with the key finds the same task by the `Nats-Msg-Id`.
      await this.#records.put(name, { ...record, taskId: id, taken: true }, revision).catch(() => {});
      return id;
    } catch (error) {
      // Only a refused first publish removes the reservation. After any other error, the message may be stored.
      if (error instanceof QueueFull && earlier === undefined)
        await this.#records.removeRevision(revision).catch(() => {});
      throw error;
    }
  }
}

function keyInUse(cause?: unknown): KeyInUse {
  return new KeyInUse('the submission with this idempotency key is under way', { cause });
}
