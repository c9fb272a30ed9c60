import type { NatsLink } from '../nats-link.ts';
import { type DeliveryState, initialDeliveryState } from './delivery-state.ts';
import type { Arrival } from './pull-requester.ts';
import { token } from './streams.ts';

/** Timeout of a request to JetStream. */
export const REQUEST_TIMEOUT_MS = 2000;

/** Headers of messages whose subject does not contain the task id, and of redriven dead letters. */
export const HEADERS = { id: 'Task-Id', sequence: 'Task-Seq', acceptedAt: 'Task-Accepted-At' } as const;

/** A delivery of JetStream that this node has not settled. */
export interface PendingDelivery {
  id: string;
  body: string;
  bytes: number;
  /** Sequence of the message in the stream. */
  streamSequence: number;
  /** Sequence of the message when it was accepted; a redriven dead letter keeps it. */
  sequence: number;
  acceptedAt: number;
  /** Position in the order of arrival at this node. */
  turn: number;
  /** Subject for acks. */
  reply: string;
  /** Number of deliveries of the message, including this one. */
  deliveries: number;
  /** State of the task. */
  note: DeliveryState;
  /** Last revision of the stored note that this node has seen; 0 without a note. */
  noteRevision: number;
  /** Whether a worker has started the task. */
  isRunning: boolean;
  /** Time of the last in-progress ack, in milliseconds since the epoch. */
  progressAt: number;
}

/** Creates the pending delivery of an arrived message, with the state of a first delivery. */
export function pendingDelivery(
  { message, reply, streamSequence, deliveries, storedAt }: Arrival,
  turn: number,
): PendingDelivery {
  const { data, headers, subject } = message;
  const id = headers?.get(HEADERS.id);
  return {
    id: id ? decodeURIComponent(id) : subject.slice(subject.lastIndexOf('.') + 1),
    body: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString(),
    bytes: data.byteLength,
    streamSequence,
    sequence: Number(headers?.get(HEADERS.sequence) || streamSequence),
    acceptedAt: Number(headers?.get(HEADERS.acceptedAt) || storedAt),
    turn,
    reply,
    deliveries,
    note: initialDeliveryState,
    noteRevision: 0,
    isRunning: false,
    progressAt: Date.now(),
  };
}

/** Whether the task id needs a header, because the subject does not contain it. */
export function needsIdHeader(id: string): boolean {
  return token(id) !== id;
}

/** Sends acks to JetStream. Each method throws if JetStream does not confirm the ack in time, except `inProgress`, which does not wait. */
export class Acknowledgements {
  readonly #link: NatsLink;

  constructor(link: NatsLink) {
    this.#link = link;
  }

  ack({ reply }: PendingDelivery): Promise<void> {
    return this.#send(reply, '+ACK');
  }

  /** Requests a redelivery after `delayMs`. */
  nak({ reply }: PendingDelivery, delayMs: number): Promise<void> {
    return this.#send(reply, delayMs > 0 ? `-NAK {"delay":${delayMs * 1_000_000}}` : '-NAK');
  }

  /** Ends the redelivery of a dead-lettered message. */
  term({ reply }: PendingDelivery): Promise<void> {
    return this.#send(reply, '+TERM');
  }

  inProgress(pending: PendingDelivery): void {
    if (!this.#link.up) return;
    pending.progressAt = Date.now();
    this.#link.connection.publish(pending.reply, '+WPI');
  }

  async #send(reply: string, ack: string): Promise<void> {
    await this.#link.connection.request(reply, ack, { timeout: REQUEST_TIMEOUT_MS });
  }
}
