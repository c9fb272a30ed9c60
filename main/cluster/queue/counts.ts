import type { JetStreamManager } from '@nats-io/jetstream';
import type { QueueCounts } from '../../tasks/queue/queue.ts';
import { CONSUMER_NAME, overhead, streamName } from './streams.ts';

/** Number of stale readings after which one is used nevertheless. A reading is stale if this node changed the streams during it. */
const MAX_STALE = 5;

/** Numbers of messages delivered to this node or returned by it. */
export interface OwnMessages {
  /** Taken and not settled. */
  inFlight: number;
  /** Returned for a retry or snooze that is not due. */
  delayed: number;
  /** Messages that JetStream counts as pending: in flight, delayed, delivered but not taken, and just requeued. */
  pending: number;
}

/**
 * Counts of the whole queue, as known to this node. Its own operations are counted at once and exactly; those of other nodes
 * are read from JetStream every second.
 *
 * `accepted` derives from the last sequence of the stream of tasks, and `dead + dropped` from that of the stream of letters, so
 * both outlive every node. A message in neither stream is completed. JetStream does not tell redrives apart, so a dead letter
 * redriven by another node, or before this node started, counts as dropped, and as accepted once more. Delayed messages of other
 * nodes count as in flight, because JetStream reports both as pending.
 */
export class NatsCounts {
  readonly #manager: JetStreamManager;
  readonly #prefix: string;
  /** Last sequence of the stream of tasks. */
  #stored = 0;
  /** Last sequence of the stream of letters. */
  #deadLettered = 0;
  #unsettled = 0;
  #bytes = 0;
  #dead = 0;
  /** Dead letters redriven by this node. */
  #redriven = 0;
  /** Messages in flight or delayed on other nodes. */
  #elsewhere = 0;
  /** First message in the stream of tasks; `at` is its time of acceptance. */
  #first: { streamSequence: number; at: number } | undefined;
  /** Number of operations that were started. */
  #operations = 0;
  /** Number of operations in progress. */
  #inProgress = 0;
  #staleReadings = 0;

  constructor(manager: JetStreamManager, prefix: string) {
    this.#manager = manager;
    this.#prefix = prefix;
  }

  /** Number of unsettled messages. */
  get unsettled(): number {
    return this.#unsettled;
  }

  /** Bytes of the bodies of unsettled messages. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Runs an operation that changes the streams. Readings of JetStream that overlap with it are stale. */
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

  /** Counts a message that leaves the stream of tasks. */
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

  /** Time of acceptance of the oldest message, of which `own` were delivered to this node, in milliseconds since the epoch. */
  oldest(own: Iterable<{ acceptedAt: number }>): number | undefined {
    let oldest = this.#unsettled > 0 ? this.#first?.at : undefined;
    for (const { acceptedAt } of own) oldest = Math.min(oldest ?? acceptedAt, acceptedAt);
    return oldest;
  }

  /** Reads the counts of all nodes. @throws {Error} if JetStream does not respond */
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
