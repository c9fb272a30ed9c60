import type { QueueCounts } from '../../tasks/queue/queue.ts';
import { CONSUMER_NAME, overhead, type QueueStreams } from './queue-streams.ts';

/** Maximum number of consecutive counts from JetStream to ignore because this node changed a stream while reading. */
const MAX_STALE = 5;

/** Counts of the messages delivered to this node, including messages that it has returned to JetStream. */
export interface OwnMessages {
  inFlight: number;
  /** Number of messages returned to JetStream for a retry or snooze that is not due yet. */
  delayed: number;
  /** Number of messages that JetStream counts as pending: in flight, delayed, not taken yet, or just requeued. */
  pending: number;
}

/**
 * Queue-wide counts. Operations of this node are counted at once, and operations of other nodes every second. Totals
 * are derived from the last sequence of each stream, so they survive a restart of all nodes. A dead letter redriven by
 * another node counts as dropped and accepted again. Messages that other nodes have delayed or requeued count as in
 * flight until their redelivery.
 */
export class NatsCounts {
  /** Number of messages that are waiting, delayed or in flight. */
  unsettled = 0;
  /** Total bytes of the bodies of unsettled messages. */
  bytes = 0;
  readonly #streams: QueueStreams;
  /** Highest known sequence in the task stream. */
  #stored = 0;
  /** Last sequence in the dead-letter stream. */
  #deadLettered = 0;
  #dead = 0;
  /** Last sequence in the cancellation stream, which equals the number of cancelled messages. */
  #cancelled = 0;
  #redriven = 0;
  /** Number of messages in flight or delayed on other nodes. */
  #elsewhere = 0;
  /** First message in the task stream. `at` is when the message was accepted, in milliseconds since the epoch. */
  #first: { streamSequence: number; at: number } | undefined;
  #operations = 0;
  #inProgress = 0;
  #staleReadings = 0;

  constructor(streams: QueueStreams) {
    this.#streams = streams;
  }

  /** Runs an operation that changes a stream. Counts read from JetStream during the operation are stale. */
  async during<T>(operation: () => Promise<T>): Promise<T> {
    this.#operations += 1;
    this.#inProgress += 1;
    try {
      return await operation();
    } finally {
      this.#inProgress -= 1;
    }
  }

  stored(streamSequence: number, bytes: number): void {
    if (this.unsettled === 0) this.#first = { streamSequence, at: Date.now() };
    this.#stored = Math.max(this.#stored, streamSequence);
    this.unsettled += 1;
    this.bytes += bytes;
  }

  /** Counts a message delivered to this node, unless the message is already counted. */
  arrived(streamSequence: number, bytes: number, storedAt: number): void {
    if (streamSequence > this.#stored) this.stored(streamSequence, bytes);
    if (streamSequence === this.#first?.streamSequence) this.#first.at = storedAt;
  }

  settled(streamSequence: number, bytes: number): void {
    this.unsettled = Math.max(0, this.unsettled - 1);
    this.bytes = Math.max(0, this.bytes - bytes);
    this.#elsewhere = Math.min(this.#elsewhere, this.unsettled);
    if (streamSequence === this.#first?.streamSequence) this.#first = undefined;
  }

  deadLettered(streamSequence: number): void {
    if (streamSequence <= this.#deadLettered) return;
    this.#deadLettered = streamSequence;
    this.#dead += 1;
  }

  cancelled(streamSequence: number): void {
    this.#cancelled = Math.max(this.#cancelled, streamSequence);
  }

  /** @param isRedriven false if the dead letter was purged */
  removed(isRedriven: boolean): void {
    this.#dead = Math.max(0, this.#dead - 1);
    if (isRedriven) this.#redriven += 1;
  }

  counts({ inFlight, delayed }: OwnMessages): QueueCounts {
    const allInFlight = inFlight + this.#elsewhere;
    const unsettled = Math.max(this.unsettled, allInFlight + delayed);
    const dropped = Math.max(0, this.#deadLettered - this.#dead - this.#redriven);
    const completed = Math.max(0, this.#stored - this.#deadLettered - this.#cancelled - unsettled);
    return {
      accepted: completed + this.#dead + dropped + this.#cancelled + unsettled,
      completed,
      dead: this.#dead,
      dropped,
      cancelled: this.#cancelled,
      waiting: unsettled - allInFlight - delayed,
      delayed,
      inFlight: allInFlight,
      bytes: this.bytes,
    };
  }

  /** Returns when the oldest unsettled message was accepted, in milliseconds since the epoch. */
  oldest(own: Iterable<{ acceptedAt: number }>): number | undefined {
    let oldest = this.unsettled > 0 ? this.#first?.at : undefined;
    for (const { acceptedAt } of own) oldest = Math.min(oldest ?? acceptedAt, acceptedAt);
    return oldest;
  }

  /**
   * Reads queue-wide counts from JetStream.
   *
   * @param runningElsewhere returns the maximum number of messages to count as in flight on other nodes. Needed for a
   *   paused queue, because JetStream includes its requeued messages in `num_ack_pending`.
   * @throws {Error} if JetStream does not respond
   */
  async refresh(own: () => OwnMessages, runningElsewhere: () => number = () => Infinity): Promise<void> {
    const operations = this.#operations;
    const isChanging = this.#inProgress > 0;
    const { tasks, letters, cancellations } = this.#streams;
    const [stored, dead, cancelled, consumer] = await Promise.all([
      tasks.state(),
      letters.state(),
      cancellations.state(),
      tasks.link.manager.consumers.info(tasks.name, CONSUMER_NAME),
    ]);
    const stale = isChanging || this.#inProgress > 0 || operations !== this.#operations;
    if (stale && ++this.#staleReadings < MAX_STALE) return;
    this.#staleReadings = 0;
    const { messages, bytes, last_seq, first_seq, first_ts } = stored;
    if (messages !== this.unsettled || last_seq !== this.#stored) {
      this.unsettled = messages;
      this.#stored = last_seq;
      this.bytes = Math.max(0, bytes - messages * overhead(tasks));
    }
    this.#first = messages > 0 ? { streamSequence: first_seq, at: Date.parse(String(first_ts)) } : undefined;
    this.#deadLettered = dead.last_seq;
    this.#dead = dead.messages;
    this.#cancelled = cancelled.last_seq;
    this.#elsewhere = Math.min(runningElsewhere(), Math.max(0, consumer.num_ack_pending - own().pending));
  }
}
