import { KEY_LIFETIME_MS } from '../../tasks/queue/idempotency-keys.ts';
import { type IdempotencyKey, KeyInUse, KeyReused, QueueFull } from '../../tasks/queue/queue.ts';
import { Conflict, type RevisionedStore } from './revisioned-store.ts';
import { digest } from './streams.ts';

/** A submission with a key, as all nodes know it. */
export interface NatsKeyRecord {
  fingerprint: string;
  taskId: string;
  /** Milliseconds since the epoch. */
  acceptedAt: number;
  /** False while it is not known whether its message was stored. */
  taken: boolean;
  /** What its message is known by to JetStream. */
  messageId: string;
}

/** A submission that is longer under way has failed, or its node has. */
const UNDER_WAY_MS = 3000;

/**
 * The submissions that named themselves. A key is reserved by compare-and-set before the message is published: of
 * several nodes one succeeds. A reservation whose end is not known (the acknowledgement or the node was lost) is taken over
 * by the next try under the same `Nats-Msg-Id`, so that JetStream itself tells for two minutes whether the message had been
 * stored, and for the same task: one that is stored again later leaves one row.
 */
export class IdempotencyStore {
  readonly #records: RevisionedStore<NatsKeyRecord>;

  constructor(records: RevisionedStore<NatsKeyRecord>) {
    this.#records = records;
  }

  /**
   * Publishes a submission unless it was taken before.
   *
   * @param publish stores the message by that `Nats-Msg-Id`, as that task; fulfilled with the id of the task that is stored under it,
   *   undefined where it was another one, of which nothing is left
   * @returns the id of the task that stands for the submission
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
      if (now - earlier.acceptedAt < UNDER_WAY_MS) throw underWay();
    }
    const messageId = earlier?.messageId ?? taskId;
    const firstId = earlier?.taskId ?? taskId;
    const record = { fingerprint, taskId: firstId, acceptedAt: now, taken: false, messageId };
    const revision = await this.#records.put(name, record, found?.revision ?? 0).catch((error) => {
      throw error instanceof Conflict ? underWay(error) : error;
    });
    try {
      const id = (await publish(messageId, firstId)) ?? firstId;
      // Where this is lost, the next try finds the same by the message's id.
      await this.#records.put(name, { ...record, taskId: id, taken: true }, revision).catch(() => {});
      return id;
    } catch (error) {
      // Only the refusal of a first try is certain; after all other errors the message may be there.
      if (error instanceof QueueFull && earlier === undefined)
        await this.#records.removeRevision(revision).catch(() => {});
      throw error;
    }
  }
}

function underWay(cause?: unknown): KeyInUse {
  return new KeyInUse('the submission with this idempotency key is under way', { cause });
}
