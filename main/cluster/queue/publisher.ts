import { JetStreamApiError, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream';
import { headers, type NatsConnection } from '@nats-io/transport-node';
import { type Message, type QueueBounds, QueueFull } from '../../tasks/queue/queue.ts';
import type { NatsCounts } from './counts.ts';
import { HEADERS, needsIdHeader, REQUEST_TIMEOUT_MS } from './pending-delivery.ts';
import { streamName, subject, token } from './streams.ts';

/** JetStream's error code for a message that was not stored, because a bound is reached or the disk fails. */
const STORE_FAILED = 10077;

/** Payload bytes reserved for the head of a dead letter, so that every queued task can be dead-lettered. */
const LETTER_HEAD_BYTES = 32 * 1024;

export interface PublishOptions {
  /** `Nats-Msg-Id`, by which JetStream detects duplicates. By default, the token of the task id. */
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

/** Publishes messages to the stream of tasks. */
export class NatsPublisher {
  readonly #connection: NatsConnection;
  readonly #manager: JetStreamManager;
  readonly #jetstream: JetStreamClient;
  readonly #prefix: string;
  readonly #bounds: QueueBounds;
  readonly #counts: NatsCounts;
  /** Bytes of the bodies being published. */
  #reserved = 0;

  constructor(
    connection: NatsConnection,
    manager: JetStreamManager,
    { prefix, bounds, counts }: { prefix: string; bounds: QueueBounds; counts: NatsCounts },
  ) {
    this.#connection = connection;
    this.#manager = manager;
    this.#jetstream = manager.jetstream();
    this.#prefix = prefix;
    this.#bounds = bounds;
    this.#counts = counts;
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
    if (needsIdHeader(id)) head.set(HEADERS.id, encodeURIComponent(id));
    if (sequence !== undefined) head.set(HEADERS.sequence, String(sequence));
    if (acceptedAt !== undefined) head.set(HEADERS.acceptedAt, String(acceptedAt));
    this.#reserved += bytes;
    try {
      const options = { msgID: messageId, headers: head, timeout: REQUEST_TIMEOUT_MS };
      const ack = await this.#jetstream.publish(subject(this.#prefix, 'tasks', token(id)), body, options);
      return { streamSequence: ack.seq, bytes, duplicate: ack.duplicate };
    } catch (error) {
      if (!isFull(error)) throw error;
      throw new QueueFull(`the queue is full: ${error.message}`, { cause: error });
    } finally {
      this.#reserved -= bytes;
    }
  }

  /** Whether the task is in the stream, so it is neither completed nor discarded. */
  async isStored(id: string): Promise<boolean> {
    const query = { last_by_subj: subject(this.#prefix, 'tasks', token(id)) };
    return (await this.#manager.streams.getMessage(streamName(this.#prefix, 'tasks'), query)) !== null;
  }

  /** Returns the id of the task at a stream sequence, or undefined if the stream no longer has its message. */
  async idAt(streamSequence: number): Promise<string | undefined> {
    const message = await this.#manager.streams.getMessage(streamName(this.#prefix, 'tasks'), { seq: streamSequence });
    if (message === null) return undefined;
    const id = message.header?.get(HEADERS.id);
    return id ? decodeURIComponent(id) : message.subject.slice(message.subject.lastIndexOf('.') + 1);
  }

  /**
   * Checks that a message fits into the queue, without a request. The counts of other nodes may be a second old. JetStream enforces
   * the bound on the number of messages exactly. Its bound on bytes includes subjects and headers, so bodies are counted here.
   *
   * @param bytes size of the message's body
   * @throws {QueueFull} if a bound would be exceeded
   * @throws {Error} if the body is too large for a NATS message
   */
  checkRoom(bytes: number): void {
    const { unsettled } = this.#counts;
    if (unsettled >= this.#bounds.maxLength) throw new QueueFull(`the queue holds ${unsettled} messages`);
    const heldBytes = this.#counts.bytes + this.#reserved;
    if (heldBytes + bytes > this.#bounds.maxBytes) throw new QueueFull(`the queue holds ${heldBytes} bytes`);
    const maxBodyBytes = (this.#connection.info?.max_payload ?? Number.POSITIVE_INFINITY) - LETTER_HEAD_BYTES;
    if (bytes > maxBodyBytes) {
      throw new Error(
        `the task has ${bytes} bytes, but NATS accepts at most ${maxBodyBytes}: raise max_payload in its configuration`,
      );
    }
  }
}

function isFull(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && error.code === STORE_FAILED && error.message.startsWith('maximum');
}
