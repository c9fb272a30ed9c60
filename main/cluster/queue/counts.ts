import type { JetStreamManager } from '@nats-io/jetstream';
import type { QueueCounts } from '../../tasks/queue/queue.ts';
import { CONSUMER_NAME, overhead, streamName } from './streams.ts';

/** Number of successive stale readings, the last of which is used. A reading is stale if this node changed a stream meanwhile. */
const MAX_STALE = 5;

/** Numbers of messages that were delivered to this node, or that this node returned to JetStream. */
export interface OwnMessages {
  /** Number of messages that the dispatcher has taken and not settled. */
  inFlight: number;
  /** Number of messages returned to JetStream for a retry or snooze that is not due yet. */
  delayed: number;
  /** Number of messages that JetStream counts as pending: in flight, delayed, delivered but not taken, and just requeued. */
  pending: number;
}

/**
 * Counts of the whole queue, as known to this node. This node's operations are counted at once and exactly. The operations of other
 * nodes are read from JetStream every second.
 *
 * `accepted` derives from the last sequence of the stream of tasks, `dead + dropped` from that of the stream of dead letters. So
 * both survive a restart of all nodes. A message in neither stream is completed. JetStream counts a redriven message as a new
 * one, so a dead letter redriven by another node, or before this node started, counts as dropped, and as accepted once more.
 * Delayed messages of other nodes count as in flight, because JetStream reports both as pending.
 */
export class NatsCounts {
  readonly #manager: JetStreamManager;
  readonly #prefix: string;
  /** Last stream sequence in the stream of tasks. */
  #stored = 0;
  /** Last stream sequence in the stream of dead letters. */
  #deadLettered = 0;
  #unsettled = 0;
  #bytes = 0;
  #dead = 0;
  /** Number of dead letters that this node put back into the queue. */
  #redriven = 0;
  /** Number of messages that are in flight or delayed on other nodes. */
  #elsewhere = 0;
  /** First message in the stream of tasks. `at` is its time of acceptance in milliseconds since the epoch. */
  #first: { streamSequence: number; at: number } | undefined;
  /** Number of operations that this node has started to change the streams. */
  #operations = 0;
  /** Number of this node's operations in progress that change the streams. */
  #inProgress = 0;
  #staleReadings = 0;

  constructor(manager: JetStreamManager, prefix: string) {
    this.#manager = manager;
    this.#prefix = prefix;
  }

  /** Number of messages that are waiting, delayed or in flight. */
  get unsettled(): number {
    return this.#unsettled;
  }

  /** Total bytes of the bodies of messages that are waiting, delayed or in flight. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Runs an operation that changes the streams. Readings of JetStream's counts that overlap with the operation are stale. */
  async during<T>(operation: () => Promise<T>): Promise<T> {
    this.#operations += 1;
    this.#inProgress += 1;
    try {
      return await operation();
    } finally {
      this.#inProgress -= 1;
    }
  }

  /** Counts a message that was stored in the stream of tasks. */
  stored(streamSequence: number, bytes: number): void {
    if (this.#unsettled === 0) this.#first = { streamSequence, at: Date.now() };
    this.#stored = Math.max(this.#stored, streamSequence);
    this.#unsettled += 1;
    this.#bytes += bytes;
  }

  /** Registers a message that was delivered to this node, and counts it if another node has just published it. */
  arrived(streamSequence: number, bytes: number, storedAt: number): void {
    if (streamSequence > this.#stored) this.stored(streamSequence, bytes);
    if (streamSequence === this.#first?.streamSequence) this.#first.at = storedAt;
  }

  /** Counts a message that leaves the stream of tasks because it is settled. */
  settled(streamSequence: number, bytes: number): void {
    this.#unsettled = Math.max(0, this.#unsettled - 1);
    this.#bytes = Math.max(0, this.#bytes - bytes);
    if (streamSequence === this.#first?.streamSequence) this.#first = undefined;
  }

  /** Counts a dead letter that was stored. */
  deadLettered(streamSequence: number): void {
    if (streamSequence <= this.#deadLettered) return;
    this.#deadLettered = streamSequence;
    this.#dead += 1;
  }

  /** Counts a dead letter that was removed. @param isRedriven whether it was put back into the queue */
  removed(isRedriven: boolean): void {
    this.#dead = Math.max(0, this.#dead - 1);
    if (isRedriven) this.#redriven += 1;
  }

  counts({ inFlight, delayed }: OwnMessages): QueueCounts {
    const allInFlight = inFlight + this.#elsewhere;
    const unsettled = Math.max(this.#unsettled, allInFlight + delayed);
    const dropped = Math.max(0, this.#deadLettered - this.#dead - this.#redriven);
    const completed = Math.max(0, this.#stored - this.#deadLettered - unsettled);
    const dead = this.#dead;
    return {
      accepted: completed + dead + dropped + unsettled,
      completed,
      dead,
      dropped,
      waiting: unsettled - allInFlight - delayed,
      delayed,
      inFlight: allInFlight,
      bytes: this.#bytes,
    };
  }

  /** Returns when the oldest unsettled message was accepted, in ms since the epoch. @param own messages delivered to this node */
  oldest(own: Iterable<{ acceptedAt: number }>): number | undefined {
    let oldest = this.#unsettled > 0 ? this.#first?.at : undefined;
    for (const { acceptedAt } of own) oldest = Math.min(oldest ?? acceptedAt, acceptedAt);
    return oldest;
  }

  /** Reads the counts of the whole queue from JetStream. @throws {Error} if JetStream does not respond */
  async refresh(own: () => OwnMessages): Promise<void> {
    const operations = this.#operations;
    const { streams, consumers } = this.#manager;
    const stream = streamName(this.#prefix, 'tasks');
    const [tasks, letters, consumer] = await Promise.all([
      streams.info(stream),
      streams.info(streamName(this.#prefix, 'letters')),
      consumers.info(stream, CONSUMER_NAME),
    ]);
    const stale = this.#inProgress > 0 || operations !== this.#operations;
    if (stale && ++this.#staleReadings < MAX_STALE) return;
    this.#staleReadings = 0;
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
