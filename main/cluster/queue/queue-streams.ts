import { AckPolicy, DiscardPolicy, RetentionPolicy } from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { deadLetterBounds } from '../../tasks/queue/dead-letter-store.ts';
import { KEY_LIFETIME_MS } from '../../tasks/queue/idempotency-keys.ts';
import type { QueueBounds } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';
import { CancellationStore, MAX_CANCELLATIONS } from './cancellation-store.ts';
import { DeadLetterStore } from './dead-letter-store.ts';
import type { DeliveryState } from './delivery-state.ts';
import { PauseStore } from './pause-store.ts';
import type { KeyRecord } from './publish-once.ts';
import { RevisionedStore } from './revisioned-store.ts';
import { Stream } from './stream.ts';

/*
 * Streams and subjects of the queue. P is the prefix (NATS_PREFIX). <token> is the subject token of the task id.
 * <digest> is the digest of the idempotency key.
 *
 * | stream      | subject             | writer                     | reader                     | limit (when reached)                        |
 * |-------------|---------------------|----------------------------|----------------------------|---------------------------------------------|
 * | P-tasks     | P.tasks.<token>     | publisher: submit, redrive | consumer; publisher        | QUEUE_MAX_LENGTH, QUEUE_MAX_BYTES (refuses) |
 * | P-letters   | P.letters.<token>   | settlement: discard        | queue: find, list, redrive | 10,000 dead letters, 32 MiB (evicts oldest) |
 * | P-notes     | P.notes.<token>     | settlement: delivery state | settlement; queue: find    | 2 × QUEUE_MAX_LENGTH (evicts oldest)        |
 * | P-keys      | P.keys.<digest>     | publishOnce                | publishOnce                | IDEMPOTENCY_MAX_KEYS, 24 h (evicts oldest)  |
 * | P-cancelled | P.cancelled.<token> | settlement: cancel         | settlement; canceller      | 10,000 cancellations (evicts oldest)        |
 * | P-pause     | P.pause.queue       | queue: pause, resume       | queue, every second        | one message                                 |
 * | none        | P.events            | events of this node        | events of other nodes      | not stored                                  |
 * | none        | P.cancel            | canceller (sequence)       | the node with the message  | not stored                                  |
 *
 * See `../ticker-state.ts` for the stream and the buckets of the ticker.
 */

/** Durable consumer of the task stream, shared by all nodes. */
export const CONSUMER_NAME = 'nodes';
/** Default time without an ack or in-progress ack after which JetStream redelivers a message. */
export const ACK_WAIT_MS = 5000;
const DUPLICATE_WINDOW_MS = 120_000;
/** Upper bound on the bytes that JetStream stores per task besides the body (record, subject and headers). */
const OVERHEAD_BYTES = 512;

/** Returns the number of bytes that JetStream stores per task besides the body, if the task id is a UUID. */
export function overhead(tasks: Stream): number {
  const id = '00000000-0000-4000-8000-000000000000';
  return 34 + tasks.subject(id).length + `NATS/1.0\r\nNats-Msg-Id: ${id}\r\n\r\n`.length;
}

export type QueueStreams = Awaited<ReturnType<typeof openStreams>>;

/** Creates the queue's streams and consumer, or updates their settings. @throws {Error} if NATS rejects the settings */
export async function openStreams(link: NatsLink, bounds: QueueBounds, ackWaitMs: number) {
  const tasks = new Stream(link, 'tasks');
  await tasks.setUp({
    retention: RetentionPolicy.Workqueue,
    discard: DiscardPolicy.New,
    max_msgs_per_subject: -1,
    max_msgs: bounds.maxLength,
    // Exact limit for all nodes together. `NatsPublisher` checks a stricter limit, but its counts may be a second old.
    max_bytes: bounds.maxBytes + bounds.maxLength * OVERHEAD_BYTES,
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
  });
  const letters = new DeadLetterStore(link, 'letters');
  const { maxLength: max_msgs, maxBytes: max_bytes } = deadLetterBounds;
  await letters.setUp({ discard: DiscardPolicy.Old, max_msgs, max_bytes });
  const notes = new RevisionedStore<DeliveryState>(link, 'notes');
  // Twice the queue length, so that states left by finished tasks do not evict states of unfinished tasks.
  await notes.setUp({ discard: DiscardPolicy.Old, max_msgs: 2 * bounds.maxLength });
  const keys = new RevisionedStore<KeyRecord>(link, 'keys');
  await keys.setUp({ discard: DiscardPolicy.Old, max_msgs: bounds.maxKeys, max_age: nanos(KEY_LIFETIME_MS) });
  const cancellations = new CancellationStore(link, 'cancelled');
  await cancellations.setUp({ discard: DiscardPolicy.Old, max_msgs: MAX_CANCELLATIONS });
  const pauses = new PauseStore(link, 'pause');
  await pauses.setUp({ discard: DiscardPolicy.Old });
  await link.manager.consumers.add(tasks.name, {
    durable_name: CONSUMER_NAME,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ackWaitMs),
    // Unlimited, because JetStream counts delayed retries as pending. Each node limits its own pull requests.
    max_ack_pending: -1,
    max_waiting: 10_000,
  });
  return { tasks, letters, notes, keys, cancellations, pauses };
}
