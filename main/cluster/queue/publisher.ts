import { JetStreamApiError, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream';
import { headers, type NatsConnection } from '@nats-io/transport-node';
import type { QueueBounds } from '../../tasks/queue/memory.ts';
import { type Message, QueueFull } from '../../tasks/queue/queue.ts';
import type { NatsCounts } from './counts.ts';
import { HEADERS, needsIdHeader, TIME_LIMIT_MS } from './pending-delivery.ts';
import { streamName, subject, token } from './streams.ts';

/** Answered by JetStream for what it did not store, because a bound is reached or the disk fails. */
const STORE_FAILED = 10077;

/** Size of a dead letter beside its body, so that every task that can be queued can be dead-lettered. */
const LETTER_HEAD_BYTES = 32 * 1024;

export interface PublishOptions {
  /** By what JetStream knows the message again; the task's id, where it is not given. */
  messageId?: string;
  /** Where the message was in the queue before. */
  sequence?: number;
  acceptedAt?: number;
}

export interface Published {
  streamSequence: number;
  bytes: number;
  /** Whether JetStream had a message with that `messageId`, and took no second one. */
  duplicate: boolean;
}

/** Puts tasks into their stream. */
export class NatsPublisher {
  readonly #connection: NatsConnection;
  readonly #manager: JetStreamManager;
  readonly #jetstream: JetStreamClient;
  readonly #prefix: string;
  readonly #bounds: QueueBounds;
  readonly #counts: NatsCounts;
  /** Bytes of bodies on their way. */
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
   * Fulfilled when JetStream has stored the message.
   *
   * @throws {QueueFull} when a bound is reached
   * @throws {Error} when that is not known in time
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
      const options = { msgID: messageId, headers: head, timeout: TIME_LIMIT_MS };
      const ack = await this.#jetstream.publish(subject(this.#prefix, 'tasks', token(id)), body, options);
      return { streamSequence: ack.seq, bytes, duplicate: ack.duplicate };
    } catch (error) {
      if (!isFull(error)) throw error;
      throw new QueueFull(`the queue is full: ${error.message}`, { cause: error });
    } finally {
      this.#reserved -= bytes;
    }
  }

  /** Whether a task is in the stream: it has not come to its end. */
  async isStored(id: string): Promise<boolean> {
    const query = { last_by_subj: subject(this.#prefix, 'tasks', token(id)) };
    return (await this.#manager.streams.getMessage(streamName(this.#prefix, 'tasks'), query)) !== null;
  }

  /** The id of the task with that stream sequence; undefined when it is completed. */
  async idAt(streamSequence: number): Promise<string | undefined> {
    const message = await this.#manager.streams.getMessage(streamName(this.#prefix, 'tasks'), { seq: streamSequence });
    if (message === null) return undefined;
    const id = message.header?.get(HEADERS.id);
    return id ? decodeURIComponent(id) : message.subject.slice(message.subject.lastIndexOf('.') + 1);
  }

  /**
   * A queue that is known to be full is not asked; at worst another node has made room within the last second. JetStream
   * itself bounds the number of messages exactly; of their bytes it counts all, so that bodies are counted here.
   *
   * @throws {QueueFull} when there is no room for one more message of so many bytes
   * @throws {Error} when it is too large for NATS
   */
  checkRoom(bytes: number): void {
    const { unsettled } = this.#counts;
    if (unsettled >= this.#bounds.maxLength) throw new QueueFull(`the queue holds ${unsettled} messages`);
    const held = this.#counts.bytes + this.#reserved;
    if (held + bytes > this.#bounds.maxBytes) throw new QueueFull(`the queue holds ${held} bytes`);
    const most = (this.#connection.info?.max_payload ?? Number.POSITIVE_INFINITY) - LETTER_HEAD_BYTES;
    if (bytes > most) {
      throw new Error(`the task has ${bytes} bytes, and NATS takes ${most}: raise max_payload in its settings`);
    }
  }
}

function isFull(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && error.code === STORE_FAILED && error.message.startsWith('maximum');
}
