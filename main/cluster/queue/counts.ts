import type { JetStreamManager } from '@nats-io/jetstream';
import type { QueueCounts } from '../../tasks/queue/queue.ts';
import { CONSUMER, overhead, streamName } from './streams.ts';

/** What changes here while JetStream is asked makes its answer useless; after so many of those it is taken all the same. */
const MOST_USELESS = 5;

/** What this node has out of the queue, right now. */
export interface OwnMessages {
  /** Handed out and not settled. */
  inFlight: number;
  /** Given back for a retry whose time has not come. */
  delayed: number;
  /** All that JetStream waits for a word about: these, what waits to be handed out, and what has just been given back. */
  pending: number;
}

/**
 * The numbers of the whole queue, as far as this node knows. What it does itself counts at once and exactly; what other
 * nodes do is read from the streams every second.
 *
 * `accepted` is the number of messages that ever were in the stream of tasks, and `dead` and `dropped` together of those in the
 * stream of letters: both are JetStream's own, and outlive every node. What is in neither stream any more is completed. A dead letter
 * that was retried by another node, or before the last start, counts as dropped, and as accepted once more. Retries that wait for other nodes count as
 * in flight, for JetStream tells no difference.
 */
export class NatsCounts {
  readonly #manager: JetStreamManager;
  readonly #prefix: string;
  /** Numbers of the latest message of tasks, and of letters. */
  #stored = 0;
  #deadLettered = 0;
  #unsettled = 0;
  #bytes = 0;
  #dead = 0;
  #redriven = 0;
  /** Messages in flight on other nodes. */
  #elsewhere = 0;
  /** The first of the stream of tasks. */
  #first: { streamSequence: number; at: number } | undefined;
  /** Operations that have begun, and how many of them are not over. */
  #operations = 0;
  #underWay = 0;
  #useless = 0;

  constructor(manager: JetStreamManager, prefix: string) {
    this.#manager = manager;
    this.#prefix = prefix;
  }

  /** Messages that have not come to their end. */
  get unsettled(): number {
    return this.#unsettled;
  }

  /** Bytes of their bodies. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Runs what changes the streams. */
  async during<T>(operation: () => Promise<T>): Promise<T> {
    this.#operations += 1;
    this.#underWay += 1;
    try {
      return await operation();
    } finally {
      this.#underWay -= 1;
    }
  }

  /** A message is in the stream of tasks. */
  stored(streamSequence: number, bytes: number): void {
    if (this.#unsettled === 0) this.#first = { streamSequence, at: Date.now() };
    this.#stored = Math.max(this.#stored, streamSequence);
    this.#unsettled += 1;
    this.#bytes += bytes;
  }

  /** A message has come here; where another node has just published it, it is new. */
  arrived(streamSequence: number, bytes: number, storedAt: number): void {
    if (streamSequence > this.#stored) this.stored(streamSequence, bytes);
    if (streamSequence === this.#first?.streamSequence) this.#first.at = storedAt;
  }

  /** A message leaves the stream of tasks. */
  settled(streamSequence: number, bytes: number): void {
    this.#unsettled = Math.max(0, this.#unsettled - 1);
    this.#bytes = Math.max(0, this.#bytes - bytes);
    if (streamSequence === this.#first?.streamSequence) this.#first = undefined;
  }

  /** A dead letter is stored. */
  deadLettered(streamSequence: number): void {
    if (streamSequence <= this.#deadLettered) return;
    this.#deadLettered = streamSequence;
    this.#dead += 1;
  }

  /** A dead letter was removed. @param isRedriven whether it is a message again */
  removed(isRedriven: boolean): void {
    this.#dead = Math.max(0, this.#dead - 1);
    if (isRedriven) this.#redriven += 1;
  }

  counts({ inFlight, delayed }: OwnMessages): QueueCounts {
    const out = inFlight + this.#elsewhere;
    const unsettled = Math.max(this.#unsettled, out + delayed);
    const dropped = Math.max(0, this.#deadLettered - this.#dead - this.#redriven);
    const completed = Math.max(0, this.#stored - this.#deadLettered - unsettled);
    const dead = this.#dead;
    return {
      accepted: completed + dead + dropped + unsettled,
      completed,
      dead,
      dropped,
      waiting: unsettled - out - delayed,
      delayed,
      inFlight: out,
      bytes: this.#bytes,
    };
  }

  /** When the oldest message was accepted, of the stream's first and of those that are out here. */
  oldest(own: Iterable<{ acceptedAt: number }>): number | undefined {
    let oldest = this.#unsettled > 0 ? this.#first?.at : undefined;
    for (const { acceptedAt } of own) oldest = Math.min(oldest ?? acceptedAt, acceptedAt);
    return oldest;
  }

  /**
   * Reads what all nodes have done.
   *
   * @throws {Error} when JetStream does not answer
   */
  async refresh(own: () => OwnMessages): Promise<void> {
    const operations = this.#operations;
    const { streams, consumers } = this.#manager;
    const stream = streamName(this.#prefix, 'tasks');
    const [tasks, letters, consumer] = await Promise.all([
      streams.info(stream),
      streams.info(streamName(this.#prefix, 'letters')),
      consumers.info(stream, CONSUMER),
    ]);
    const useless = this.#underWay > 0 || operations !== this.#operations;
    if (useless && ++this.#useless < MOST_USELESS) return;
    this.#useless = 0;
    const { messages, bytes, last_seq, first_seq, first_ts } = tasks.state;
    if (messages !== this.#unsettled || last_seq !== this.#stored) {
      this.#unsettled = messages;
      this.#stored = last_seq;
      this.#bytes = Math.max(0, bytes - messages * overhead(this.#prefix));
    }
    this.#first = messages > 0 ? { streamSequence: first_seq, at: Date.parse(String(first_ts)) } : undefined;
    this.#deadLettered = letters.state.last_seq;
    this.#dead = letters.state.messages;
    this.#elsewhere = Math.max(0, consumer.num_ack_pending - own().pending);
  }
}
