import {
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  type MsgRequest,
  type StoredMsg,
} from '@nats-io/jetstream';
import { headers, type NatsConnection } from '@nats-io/transport-node';
import { type Message, type QueueBounds, QueueFull } from '../../tasks/queue/queue.ts';
import type { NatsCounts } from './counts.ts';
import { HEADERS, REQUEST_TIMEOUT_MS, taskIdOf } from './pending-delivery.ts';
import { streamName, subject, token } from './streams.ts';

/** JetStream's error code for a message that was not stored, because a bound is reached or the disk fails. */
const STORE_FAILED = 10077;
/** Bytes of a NATS message reserved for the head of a dead letter, so that every queued task can be dead-lettered. */
const LETTER_HEAD_BYTES = 32 * 1024;

export interface PublishOptions {
  /** `Nats-Msg-Id`, by which JetStream detects duplicates. By default, the subject token of the task id. */
  messageId?: string;
  /** Original sequence of a redriven message. */
  sequence?: number;
  /** Original time of acceptance of a redriven message, in milliseconds since the epoch. */
  acceptedAt?: number;
}

export interface Published {
  streamSequence: number;
  bytes: number;
  /** Whether JetStream already had a message with the same `Nats-Msg-Id`, and did not store this one. */
  duplicate: boolean;
}

export interface PublisherParts {
  connection: NatsConnection;
  manager: JetStreamManager;
  prefix: string;
  bounds: QueueBounds;
  counts: NatsCounts;
}

/** Publishes messages to the stream of tasks. */
export class NatsPublisher {
  readonly #parts: PublisherParts;
  readonly #jetstream: JetStreamClient;
  /** Total bytes of the bodies being published. */
  #reserved = 0;

  constructor(parts: PublisherParts) {
    this.#parts = parts;
    this.#jetstream = parts.manager.jetstream();
  }

  /**
   * Publishes a message. Fulfilled when JetStream has stored it.
   *
   * @throws {QueueFull} if a bound is reached
   * @throws {Error} if JetStream does not confirm the message in time; it may have been stored
   */
  async publish(
    { id, body }: Message,
    { messageId = token(id), sequence, acceptedAt }: PublishOptions = {},
  ): Promise<Published> {
    const bytes = Buffer.byteLength(body);
    const head = headers();
    if (token(id) !== id) head.set(HEADERS.id, encodeURIComponent(id));
    if (sequence !== undefined) head.set(HEADERS.sequence, String(sequence));
    if (acceptedAt !== undefined) head.set(HEADERS.acceptedAt, String(acceptedAt));
    this.#reserved += bytes;
    try {
      const options = { msgID: messageId, headers: head, timeout: REQUEST_TIMEOUT_MS };
      const ack = await this.#jetstream.publish(subject(this.#parts.prefix, 'tasks', token(id)), body, options);
      return { streamSequence: ack.seq, bytes, duplicate: ack.duplicate };
    } catch (error) {
      if (!isFull(error)) throw error;
      throw new QueueFull(`the queue is full: ${error.message}`, { cause: error });
    } finally {
      this.#reserved -= bytes;
    }
  }

  /** Returns whether the task is in the stream, so it is neither completed nor discarded. */
  async isStored(id: string): Promise<boolean> {
    return (await this.#find({ last_by_subj: subject(this.#parts.prefix, 'tasks', token(id)) })) !== null;
  }

  /** Returns the id of the task at a stream sequence, or undefined if the stream no longer has its message. */
  async idAt(streamSequence: number): Promise<string | undefined> {
    const message = await this.#find({ seq: streamSequence });
    return message === null ? undefined : taskIdOf(message.subject, message.header);
  }

  #find(query: MsgRequest): Promise<StoredMsg | null> {
    return this.#parts.manager.streams.getMessage(streamName(this.#parts.prefix, 'tasks'), query);
  }

  /**
   * Checks, without a request, that a body of that many bytes fits into the queue. Messages of other nodes may be counted a second
   * late, but JetStream enforces the bound on the number of messages exactly. Its bound on bytes includes subjects and headers.
   *
   * @throws {QueueFull} if a bound would be exceeded
   * @throws {Error} if the body is too large for a NATS message
   */
  checkRoom(bytes: number): void {
    const { connection, bounds, counts } = this.#parts;
    const { unsettled } = counts;
    if (unsettled >= bounds.maxLength) throw new QueueFull(`the queue holds ${unsettled} messages`);
    const heldBytes = counts.bytes + this.#reserved;
    if (heldBytes + bytes > bounds.maxBytes) throw new QueueFull(`the queue holds ${heldBytes} bytes`);
    const maxBodyBytes = (connection.info?.max_payload ?? Number.POSITIVE_INFINITY) - LETTER_HEAD_BYTES;
    if (bytes <= maxBodyBytes) return;
    const problem = `the task has ${bytes} bytes, but NATS accepts at most ${maxBodyBytes}`;
    throw new Error(`${problem}: raise max_payload in its configuration`);
  }
}

function isFull(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && error.code === STORE_FAILED && error.message.startsWith('maximum');
}
