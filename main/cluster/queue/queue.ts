import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import type {
  Delivery,
  KeyedSubmission,
  ListedDeadLetter,
  Message,
  OpenQueue,
  Progress,
  Queue,
  QueueCounts,
  Settlement,
  TaskEvent,
} from '../../tasks/queue/queue.ts';
import { NatsLink } from '../nats-link.ts';
import { NatsConsumer } from './consumer.ts';
import { NatsCounts } from './counts.ts';
import { DeadLetterStore } from './dead-letter-store.ts';
import type { DeliveryState } from './delivery-state.ts';
import { NatsEvents } from './events.ts';
import { IdempotencyStore } from './idempotency-store.ts';
import { REQUEST_TIMEOUT_MS } from './pending-delivery.ts';
import { NatsPublisher, type Published, type PublishOptions } from './publisher.ts';
import { RevisionedStore } from './revisioned-store.ts';
import type { SettlerParts } from './settlement.ts';
import { ACK_WAIT_MS, type StreamOptions, setUpStreams, token } from './streams.ts';

/** Interval at which the counts of the whole queue are read from JetStream. */
const REFRESH_MS = 1000;

export interface NatsQueueOptions extends Omit<StreamOptions, 'ackWaitMs'> {
  /** Connection to servers with JetStream. Stays open when the queue is closed. */
  connection: NatsConnection;
  ackWaitMs?: number;
  /** Called for every state change of a message, on any node. */
  onEvent?: (event: TaskEvent) => void;
}

/**
 * Opens a queue that any number of nodes share. All of its state is in JetStream; `streams.ts` lists the streams.
 *
 * @throws {Error} if the servers have no JetStream or reject the settings
 */
export async function openNatsQueue(options: NatsQueueOptions): Promise<OpenQueue> {
  const { connection, prefix, bounds, replicas, ackWaitMs = ACK_WAIT_MS, onEvent = () => {} } = options;
  const link = new NatsLink(connection);
  const manager = await jetstreamManager(connection, { timeout: REQUEST_TIMEOUT_MS });
  await setUpStreams(manager, { prefix, bounds, replicas, ackWaitMs });
  const counts = new NatsCounts(manager, prefix);
  const events = new NatsEvents(link, `${prefix}.events`, onEvent);
  const letters = new DeadLetterStore(manager, prefix);
  const notes = new RevisionedStore<DeliveryState>(manager, prefix, 'notes');
  const keys = new IdempotencyStore(new RevisionedStore(manager, prefix, 'keys'));
  const publisher = new NatsPublisher({ connection, manager, prefix, bounds, counts });
  const settlerParts = { link, counts, events, letters, notes };
  const consumer = new NatsConsumer({ prefix, ackWaitMs, ...settlerParts });
  const queue = new NatsQueue({ ...settlerParts, keys, publisher, consumer });
  await queue.refresh();
  return { queue, close: () => queue.close().then(() => true) };
}

interface Parts extends SettlerParts {
  keys: IdempotencyStore;
  publisher: NatsPublisher;
  consumer: NatsConsumer;
}

class NatsQueue implements Queue {
  readonly durable = true;
  readonly #parts: Parts;
  /** Ids of messages being published. JetStream may deliver such a message before it confirms the publish. */
  readonly #publishing = new Set<string>();
  /** Promise of the last redrive in progress for each task, by task id. */
  readonly #redriving = new Map<string, Promise<unknown>>();
  readonly #refreshTimer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.consumer.onArrival = (pending) => {
      if (this.#publishing.has(pending.id)) this.#accept(pending.id, pending);
      parts.counts.arrived(pending.streamSequence, pending.bytes, pending.acceptedAt);
    };
    this.#refreshTimer = setInterval(() => void this.refresh().catch(() => {}), REFRESH_MS).unref();
    this.#unsubscribe = parts.link.onUp(() => parts.consumer.renew());
  }

  /** Reads the counts of the whole queue from JetStream. @throws {Error} if JetStream does not respond */
  async refresh(): Promise<void> {
    if (!this.#parts.link.up) return;
    await this.#parts.counts.refresh(() => this.#parts.consumer.own());
  }

  async publish(message: Message, keyed?: KeyedSubmission): Promise<string> {
    this.#checkOpen();
    if (keyed === undefined) {
      await this.#publish(message);
      return message.id;
    }
    return this.#parts.keys.take(keyed, message.id, async (messageId, id) => {
      const { duplicate, streamSequence } = await this.#publish(keyed.createMessage(id), { messageId });
      return duplicate ? this.#parts.publisher.idAt(streamSequence) : id;
    });
  }

  onReady(listener: () => void): () => void {
    return this.#closed ? () => {} : this.#parts.consumer.onReady(listener);
  }

  /** Takes up to `max` deliveries. Nothing is recorded, because JetStream counts the deliveries of each message. */
  take(max: number): Delivery[] {
    return this.#closed ? [] : this.#parts.consumer.take(max);
  }

  markRunning(delivery: Delivery): Promise<void> {
    return this.#parts.consumer.markRunning(delivery);
  }

  settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    return this.#parts.consumer.settle(delivery, settlement);
  }

  async find(id: string): Promise<Progress | undefined> {
    this.#checkReachable();
    const { consumer, publisher, notes, letters, events } = this.#parts;
    await this.#redriving.get(id)?.catch(() => {});
    const pending = consumer.find(id);
    if (pending?.isRunning) return { state: 'running', attempt: pending.note.attempts + 1 };
    // A redrive stores the message before it removes the dead letter, and a discard stores the dead letter before it removes the
    // message. So an unfinished task is in at least one of the two streams.
    if (await publisher.isStored(id)) {
      const attempt = events.attemptElsewhere(id);
      if (pending === undefined && attempt !== undefined) return { state: 'running', attempt };
      const note = await notes.get(token(id));
      if (pending !== undefined || note === undefined || note.value.dueAt <= Date.now()) return { state: 'queued' };
      const { attempts, reason, dueAt } = note.value;
      return { state: 'retrying', attempts, reason, dueAt };
    }
    const stored = await letters.get(id);
    return stored && { state: 'failed', letter: stored.letter };
  }

  counts(): QueueCounts {
    return this.#parts.counts.counts(this.#parts.consumer.own());
  }

  oldest(): number | undefined {
    return this.#parts.counts.oldest(this.#parts.consumer.unsettled());
  }

  async newestDeadLetters(limit: number): Promise<readonly ListedDeadLetter[]> {
    this.#checkReachable();
    const read = async (streamSequence: number) => {
      this.#checkReachable();
      return this.#parts.letters.read(streamSequence);
    };
    const newest = await this.#parts.letters.newest(limit);
    return newest.map(({ streamSequence, bytes }) => ({ bytes, read: () => read(streamSequence) }));
  }

  async redrive(id: string): Promise<boolean> {
    const earlier = this.#redriving.get(id);
    // Awaits only if there is an earlier redrive, so that the second of two concurrent calls always finds the first one.
    if (earlier !== undefined) await earlier.catch(() => {});
    const redriving = this.#parts.counts.during(() => this.#redrive(id));
    this.#redriving.set(id, redriving);
    try {
      return await redriving;
    } finally {
      if (this.#redriving.get(id) === redriving) this.#redriving.delete(id);
    }
  }

  async purge(id: string): Promise<boolean> {
    this.#checkReachable();
    const { counts, letters } = this.#parts;
    return counts.during(async () => {
      const stored = await letters.get(id);
      const removed = stored !== undefined && (await letters.remove(stored.streamSequence));
      if (removed) counts.removed(false);
      return removed;
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#refreshTimer);
    this.#unsubscribe();
    await this.#parts.consumer.close();
    this.#parts.events.close();
  }

  #checkOpen(): void {
    if (this.#closed) throw new Error('the queue is closed');
    this.#checkReachable();
  }

  /** Throws while NATS is disconnected, because the client library would buffer requests without a bound. */
  #checkReachable(): void {
    if (!this.#parts.link.up) throw new Error('the queue cannot be reached: there is no connection to NATS');
  }

  async #publish(message: Message, options: PublishOptions = {}): Promise<Published> {
    const { counts, publisher } = this.#parts;
    const { id, body } = message;
    // Checked outside of `during`, because a refused message changes no stream, so it makes no reading of the counts stale.
    publisher.checkRoom(Buffer.byteLength(body));
    this.#publishing.add(id);
    try {
      return await counts.during(async () => {
        const published = await publisher.publish(message, options);
        if (this.#publishing.has(id) && !published.duplicate) this.#accept(id, published);
        return published;
      });
    } finally {
      this.#publishing.delete(id);
    }
  }

  #accept(id: string, { streamSequence, bytes }: Pick<Published, 'streamSequence' | 'bytes'>): void {
    this.#publishing.delete(id);
    this.#parts.counts.stored(streamSequence, bytes);
    this.#parts.events.tell({ event: 'accepted', id });
  }

  /**
   * Stores the message before it removes the dead letter, so that the task is never lost. If several nodes redrive a dead letter at
   * once, JetStream stores one message and reports it as a duplicate to the other nodes.
   */
  async #redrive(id: string): Promise<boolean> {
    this.#checkOpen();
    const { letters, counts } = this.#parts;
    const stored = await letters.get(id);
    if (stored === undefined) return false;
    const { letter, streamSequence, taskSequence } = stored;
    const { body, sequence, acceptedAt } = letter;
    const messageId = `${token(id)} ${taskSequence}`;
    const { duplicate } = await this.#publish({ id, body }, { messageId, sequence, acceptedAt });
    const removed = await letters.remove(streamSequence);
    if (removed) counts.removed(true);
    return removed || !duplicate;
  }
}
