import { JetStreamApiError, type PubAck } from '@nats-io/jetstream';
import { headers } from '@nats-io/transport-node';
import { actionStart } from '../../../workers/parse-submission.ts';
import { subjectOf } from '../../tasks/queue/event-subject.ts';
import { type Message, QueueFull } from '../../tasks/queue/queue.ts';
import { STORE_FAILED } from '../nats-link.ts';
import { HEADERS, type PendingDelivery, taskIdOf } from './pending-delivery.ts';
import type { QueueParts } from './queue-parts.ts';
import { token } from './stream.ts';

/** Reserved for the head of a dead letter, so that every queued task fits in a NATS message as a dead letter. */
const LETTER_HEAD_BYTES = 32 * 1024;

interface PublishOptions {
  /** Value of `HEADERS.messageId`. Default: the subject token of the task id. */
  messageId?: string;
  /** Stream sequence of a redriven message when it was first accepted. */
  sequence?: number;
  /** Time when a redriven message was first accepted, in milliseconds since the epoch. */
  acceptedAt?: number;
}

/** Publishes messages to the task stream, counts them, and reports them as accepted. */
export class NatsPublisher {
  readonly #parts: QueueParts;
  /** Ids of messages being published. JetStream may deliver a message before it confirms the publish. */
  readonly #publishing = new Set<string>();
  #publishingBytes = 0;

  constructor(parts: QueueParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when JetStream has stored the message or recognized it as a duplicate.
   *
   * @throws {QueueFull} if the queue is full
   * @throws {Error} if JetStream does not confirm the message in time; the message may still be stored
   */
  async publish({ id, body }: Message, options: PublishOptions = {}): Promise<PubAck> {
    const { link, tasks, counts } = this.#parts;
    const { messageId = token(id), sequence, acceptedAt } = options;
    const bytes = Buffer.byteLength(body);
    // Checked before `counts.during`, because a refused message must not make concurrent reads of the counts stale.
    this.#checkRoom(bytes);
    const head = headers();
    head.set(HEADERS.messageId, messageId);
    if (token(id) !== id) head.set(HEADERS.id, encodeURIComponent(id));
    if (sequence !== undefined) head.set(HEADERS.sequence, String(sequence));
    if (acceptedAt !== undefined) head.set(HEADERS.acceptedAt, String(acceptedAt));
    this.#publishing.add(id);
    this.#publishingBytes += bytes;
    try {
      return await counts.during(async () => {
        const ack = await link.publications.publish(tasks.subject(token(id)), body, head).finally(() => {
          this.#publishingBytes -= bytes;
        });
        if (this.#publishing.has(id) && !ack.duplicate) this.#accept({ id, action: actionStart(body) }, ack.seq, bytes);
        return ack;
      });
    } catch (error) {
      if (!isFull(error)) throw error;
      throw new QueueFull(`the queue is full: ${error.message}`, { cause: error });
    } finally {
      this.#publishing.delete(id);
    }
  }

  /** Counts a message delivered to this node, unless the message is already counted. */
  arrived({ id, action, streamSequence, bytes, acceptedAt }: PendingDelivery): void {
    if (this.#publishing.has(id)) this.#accept({ id, action }, streamSequence, bytes);
    this.#parts.counts.arrived(streamSequence, bytes, acceptedAt);
  }

  async idAt(streamSequence: number): Promise<string | undefined> {
    const message = await this.#parts.tasks.at(streamSequence);
    return message === null ? undefined : taskIdOf(message.subject, message.header);
  }

  #accept(task: Pick<PendingDelivery, 'id' | 'action'>, streamSequence: number, bytes: number): void {
    this.#publishing.delete(task.id);
    this.#parts.counts.stored(streamSequence, bytes);
    this.#parts.events.tell({ event: 'accepted', ...subjectOf(task) });
  }

  // The local counts may be a second old. JetStream enforces the maximum length of the queue exactly.
  #checkRoom(bytes: number): void {
    const { link, bounds, counts } = this.#parts;
    const { unsettled } = counts;
    if (unsettled >= bounds.maxLength) throw new QueueFull(`the queue holds ${unsettled} messages`);
    const heldBytes = counts.bytes + this.#publishingBytes;
    if (heldBytes + bytes > bounds.maxBytes) throw new QueueFull(`the queue holds ${heldBytes} bytes`);
    const maxBodyBytes = (link.connection.info?.max_payload ?? Number.POSITIVE_INFINITY) - LETTER_HEAD_BYTES;
    if (bytes <= maxBodyBytes) return;
    const problem = `the task has ${bytes} bytes, but NATS accepts at most ${maxBodyBytes}`;
    throw new Error(`${problem}: raise max_payload in its configuration`);
  }
}

function isFull(error: unknown): error is JetStreamApiError {
  return error instanceof JetStreamApiError && error.code === STORE_FAILED && error.message.startsWith('maximum');
}
