import type { NatsLink } from '../../../engines/nats-link.ts';
import type { Arrival } from './intake.ts';
import { type Note, noNote } from './notes.ts';
import { token } from './streams.ts';

/** A word to JetStream, and to any server, has to be answered within this. */
export const TIME_LIMIT_MS = 2000;

/** Headers of messages whose id stands in no subject, and of dead letters that were put back. */
export const HEADERS = { id: 'Task-Id', seq: 'Task-Seq', acceptedAt: 'Task-Accepted-At' } as const;

/** A message that this node has and has not settled. */
export interface Holding {
  id: string;
  body: string;
  bytes: number;
  /** Its number in the stream. */
  place: number;
  /** Its number in the queue, for good: that of its first place. */
  seq: number;
  acceptedAt: number;
  /** The order in which this node got its messages. */
  turn: number;
  reply: string;
  deliveries: number;
  /** What the delivery has to go by. */
  note: Note;
  /** Revision of the stored note that this node knows; 0 without one. */
  noteRevision: number;
  /** See `Delivery`. */
  suspect: boolean;
  /** Handed to the consumer. */
  out: boolean;
  begun: boolean;
  /** When JetStream was last told that it is alive, in milliseconds since the epoch. */
  touchedAt: number;
}

/** A message as it arrived, for the first time as far as is known. */
export function holding({ message, reply, place, deliveries, storedAt }: Arrival, turn: number): Holding {
  const { data, headers, subject } = message;
  const id = headers?.get(HEADERS.id);
  return {
    id: id ? decodeURIComponent(id) : subject.slice(subject.lastIndexOf('.') + 1),
    body: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString(),
    bytes: data.byteLength,
    place,
    seq: Number(headers?.get(HEADERS.seq) || place),
    acceptedAt: Number(headers?.get(HEADERS.acceptedAt) || storedAt),
    turn,
    reply,
    deliveries,
    note: noNote,
    noteRevision: 0,
    suspect: false,
    out: false,
    begun: false,
    touchedAt: Date.now(),
  };
}

/** Whether the subject does not tell the id of the task. */
export function needsIdHeader(id: string): boolean {
  return token(id) !== id;
}

/**
 * What is said to JetStream about a message. Each is answered, so that what follows it (a place that is free again)
 * holds; all throw when there is no answer in time.
 */
export class Acknowledgements {
  readonly #link: NatsLink;

  constructor(link: NatsLink) {
    this.#link = link;
  }

  /** Done. */
  ack({ reply }: Holding): Promise<void> {
    return this.#say(reply, '+ACK');
  }

  /** To be delivered again, after `delayMs`. */
  nak({ reply }: Holding, delayMs: number): Promise<void> {
    return this.#say(reply, delayMs > 0 ? `-NAK {"delay":${delayMs * 1_000_000}}` : '-NAK');
  }

  /** Given up. */
  term({ reply }: Holding): Promise<void> {
    return this.#say(reply, '+TERM');
  }

  /** Still held, by a node that lives; nobody waits for an answer to that. */
  touch(held: Holding): void {
    if (!this.#link.up) return;
    held.touchedAt = Date.now();
    this.#link.connection.publish(held.reply, '+WPI');
  }

  async #say(reply: string, word: string): Promise<void> {
    await this.#link.connection.request(reply, word, { timeout: TIME_LIMIT_MS });
  }
}
