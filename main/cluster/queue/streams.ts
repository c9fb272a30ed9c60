import { createHash } from 'node:crypto';
import {
  AckPolicy,
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from '@nats-io/jetstream';
import { deadLetterBounds } from '../../tasks/queue/dead-letters.ts';
import { KEY_LIFETIME_MS } from '../../tasks/queue/idempotency-keys.ts';
import type { QueueBounds } from '../../tasks/queue/queue.ts';

/*
 * Streams and subjects of the queue. P is the prefix (NATS_PREFIX), <token> that of the task id, <digest> that of the key.
 *
 * | stream    | subject           | writer                      | reader                     | bound (past it)                             |
 * |-----------|-------------------|-----------------------------|----------------------------|---------------------------------------------|
 * | P-tasks   | P.tasks.<token>   | publisher: submit, redrive  | consumer; publisher        | QUEUE_MAX_LENGTH, QUEUE_MAX_BYTES (refuses) |
 * | P-letters | P.letters.<token> | settlement: discard         | queue: find, list, redrive | 10,000 letters, 32 MiB (evicts oldest)      |
 * | P-notes   | P.notes.<token>   | settlement: state of a task | settlement; queue: find    | 2 × QUEUE_MAX_LENGTH (evicts oldest)        |
 * | P-keys    | P.keys.<digest>   | idempotency store           | idempotency store          | IDEMPOTENCY_MAX_KEYS, 24 h (evicts oldest)  |
 * | none      | P.events          | events of this node         | events of other nodes      | not stored                                  |
 *
 * `../ticker-state.ts` lists the stream and the buckets of the ticker.
 */

/** Name of the durable consumer of the stream of tasks, shared by all nodes. */
export const CONSUMER_NAME = 'nodes';
/** Default ack wait, after which JetStream redelivers a message without an ack or in-progress ack. */
export const ACK_WAIT_MS = 5000;
/** Time for which JetStream detects duplicates by `Nats-Msg-Id`. */
const DUPLICATE_WINDOW_MS = 120_000;
/** Upper bound of the bytes that JetStream stores per task in addition to the body: record, subject and headers. */
const OVERHEAD_BYTES = 512;
/** JetStream's error code for creating a stream that exists with other settings. */
const STREAM_NAME_IN_USE = 10058;

/** Kinds of items, each in its own stream with one subject per item. Notes are the states of unfinished tasks. */
type Kind = 'tasks' | 'letters' | 'notes' | 'keys';

export function streamName(prefix: string, kind: Kind): string {
  return `${prefix}-${kind}`;
}

export function subject(prefix: string, kind: Kind, token: string): string {
  return `${prefix}.${kind}.${token}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Returns the subject token of a task id, because a subject allows only some characters. The token is the id itself if that is a
 * UUID, and otherwise a digest of the same length.
 */
export function token(id: string): string {
  return UUID.test(id) ? id : digest(id).slice(0, 36);
}

/** Returns the SHA-256 of a text, in hexadecimal. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Bytes that JetStream stores in addition to the body of a task whose id is a UUID: record, subject and headers. */
export function overhead(prefix: string): number {
  const id = '00000000-0000-4000-8000-000000000000';
  return 34 + subject(prefix, 'tasks', id).length + `NATS/1.0\r\nNats-Msg-Id: ${id}\r\n\r\n`.length;
}

export interface StreamOptions {
  /** Prefix of the names of streams and subjects, so that several deployments can share the servers. */
  prefix: string;
  bounds: QueueBounds;
  /** Number of replicas of each stream. */
  replicas: number;
  /** Time without an in-progress ack after which JetStream redelivers a message. */
  ackWaitMs: number;
}

/** Creates the streams and the consumer, or updates their settings. @throws {Error} if NATS rejects the settings */
export async function setUpStreams(
  manager: JetStreamManager,
  { prefix, bounds, replicas, ackWaitMs }: StreamOptions,
): Promise<void> {
  const setUp = async (kind: Kind, settings: Partial<StreamConfig>) => {
    const common = { storage: StorageType.File, num_replicas: replicas, max_msgs_per_subject: 1 };
    const config = { ...common, subjects: [subject(prefix, kind, '*')], ...settings };
    const name = streamName(prefix, kind);
    await manager.streams.add({ name, ...config }).catch((error) => {
      if (!(error instanceof JetStreamApiError) || error.code !== STREAM_NAME_IN_USE) throw error;
      return manager.streams.update(name, config);
    });
  };
  await setUp('tasks', {
    retention: RetentionPolicy.Workqueue,
    discard: DiscardPolicy.New,
    max_msgs_per_subject: -1,
    max_msgs: bounds.maxLength,
    // The publisher itself limits the bytes of bodies, but its counts of other nodes may be a second old. JetStream enforces this
    // looser bound even if several nodes publish at once.
    max_bytes: bounds.maxBytes + bounds.maxLength * OVERHEAD_BYTES,
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
  });
  const { maxLength: max_msgs, maxBytes: max_bytes } = deadLetterBounds;
  await setUp('letters', { discard: DiscardPolicy.Old, max_msgs, max_bytes });
  // Twice the maximum number of tasks, so that leftover notes of finished tasks do not evict the notes of unfinished tasks.
  await setUp('notes', { discard: DiscardPolicy.Old, max_msgs: 2 * bounds.maxLength });
  await setUp('keys', { discard: DiscardPolicy.Old, max_msgs: bounds.maxKeys, max_age: nanos(KEY_LIFETIME_MS) });
  await manager.consumers.add(streamName(prefix, 'tasks'), {
    durable_name: CONSUMER_NAME,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ackWaitMs),
    // No limit, because JetStream counts delayed retries as pending. Each node limits its own pull requests.
    max_ack_pending: -1,
    max_waiting: 10_000,
  });
}

function nanos(ms: number): number {
  return ms * 1_000_000;
}
