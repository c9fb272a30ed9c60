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
import type { QueueBounds } from '../../tasks/queue/memory.ts';

/** The durable consumer of tasks that all nodes share. */
export const CONSUMER = 'nodes';

/** A message that its node does not say a word about for so long is given to another, unless it is set otherwise. */
export const ACK_WAIT_MS = 5000;

/** How long JetStream knows a message by its `Nats-Msg-Id`, and stores it no second time. */
const DUPLICATE_WINDOW_MS = 120_000;

/** What JetStream stores of a task beside its body, at most: subject, headers, and its own record. */
const OVERHEAD_BYTES = 512;

/** Answered by JetStream for a stream that is there with other settings. */
const STREAM_NAME_IN_USE = 10058;

/** What is kept under a prefix, each in a stream of its own with one subject an item. */
type Kind = 'tasks' | 'letters' | 'notes' | 'keys';

export function streamName(prefix: string, kind: Kind): string {
  return `${prefix}-${kind}`;
}

export function subject(prefix: string, kind: Kind, token: string): string {
  return `${prefix}.${kind}.${token}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * What stands for a task's id in a subject, which may not hold any character: the id, where it is one of ours, else a
 * digest of the same length.
 */
export function token(id: string): string {
  return UUID.test(id) ? id : digest(id).slice(0, 36);
}

export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Bytes that JetStream stores of a task with one of our ids beside its body: record, subject, headers. */
export function overhead(prefix: string): number {
  const id = '00000000-0000-4000-8000-000000000000';
  return 34 + subject(prefix, 'tasks', id).length + `NATS/1.0\r\nNats-Msg-Id: ${id}\r\n\r\n`.length;
}

export interface StreamOptions {
  prefix: string;
  bounds: QueueBounds;
  /** Servers that keep each message. */
  replicas: number;
  ackWaitMs: number;
}

/** Makes the streams and the consumer, or brings them to these settings. @throws {Error} when NATS does not take them */
export async function setUpStreams(
  manager: JetStreamManager,
  { prefix, bounds, replicas, ackWaitMs }: StreamOptions,
): Promise<void> {
  const make = async (kind: Kind, settings: Partial<StreamConfig>) => {
    const common = { storage: StorageType.File, num_replicas: replicas, max_msgs_per_subject: 1 };
    const config = { ...common, subjects: [subject(prefix, kind, '*')], ...settings };
    const name = streamName(prefix, kind);
    await manager.streams.add({ name, ...config }).catch((error) => {
      if (!(error instanceof JetStreamApiError) || error.code !== STREAM_NAME_IN_USE) throw error;
      return manager.streams.update(name, config);
    });
  };
  await make('tasks', {
    retention: RetentionPolicy.Workqueue,
    discard: DiscardPolicy.New,
    max_msgs_per_subject: -1,
    max_msgs: bounds.maxLength,
    // The bound on bodies is the driver's; this one holds if nodes that know little of each other are too quick together.
    max_bytes: bounds.maxBytes + bounds.maxLength * OVERHEAD_BYTES,
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
  });
  const { maxLength: max_msgs, maxBytes: max_bytes } = deadLetterBounds;
  await make('letters', { discard: DiscardPolicy.Old, max_msgs, max_bytes });
  // Twice as many as there are tasks, so that a note that was left behind costs no living one its place.
  await make('notes', { discard: DiscardPolicy.Old, max_msgs: 2 * bounds.maxLength });
  await make('keys', { discard: DiscardPolicy.Old, max_msgs: bounds.maxKeys, max_age: nanos(KEY_LIFETIME_MS) });
  await manager.consumers.add(streamName(prefix, 'tasks'), {
    durable_name: CONSUMER,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ackWaitMs),
    // Retries that wait for their time count as pending, and so do the messages of all nodes: each bounds its own.
    max_ack_pending: -1,
    max_waiting: 10_000,
  });
}

function nanos(ms: number): number {
  return ms * 1_000_000;
}
