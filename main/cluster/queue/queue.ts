import { randomUUID } from 'node:crypto';
import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import type { QueueBounds } from '../../tasks/queue/memory.ts';
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
import type { Note } from './delivery-state.ts';
import { NatsEvents } from './events.ts';
import { IdempotencyStore } from './idempotency-store.ts';
import { TIME_LIMIT_MS } from './pending-delivery.ts';
import { NatsPublisher, type Published, type PublishOptions } from './publisher.ts';
import { RevisionedStore } from './revisioned-store.ts';
import { ACK_WAIT_MS, setUpStreams, streamName, subject, token } from './streams.ts';

/** How often the numbers of all nodes are read. */
const REFRESH_MS = 1000;

export interface NatsQueueOptions {
  /** To servers with JetStream. It stays open when the queue is closed. */
  connection: NatsConnection;
  /** What the names of streams and subjects begin with, so that others can use the same servers. */
  prefix?: string;
  bounds: QueueBounds;
  /** Servers that keep each message. */
  replicas: number;
  /** How long a node may be silent until what it has goes to others. */
  ackWaitMs?: number;
  /** Told of every step of every message, on all nodes. */
  onEvent?: (event: TaskEvent) => void;
}

/**
 * A queue on JetStream that any number of nodes share: all messages, notes, keys and dead letters are there.
 *
 * @throws {Error} when NATS has no JetStream, or does not take the settings
 */
export async function openNatsQueue(options: NatsQueueOptions): Promise<OpenQueue> {
  const { connection, prefix = 'ticker-and-tasks', bounds, replicas, onEvent = () => {} } = options;
  const { ackWaitMs = ACK_WAIT_MS } = options;
  const link = new NatsLink(connection);
  const manager = await jetstreamManager(connection, { timeout: TIME_LIMIT_MS });
  await setUpStreams(manager, { prefix, bounds, replicas, ackWaitMs });
  const values = <Value>(kind: 'notes' | 'keys') =>
    new RevisionedStore<Value>(manager, streamName(prefix, kind), (name) => subject(prefix, kind, name));
  const counts = new NatsCounts(manager, prefix);
  const events = new NatsEvents(link, `${prefix}.events`, randomUUID(), onEvent);
  const letters = new DeadLetterStore(manager, prefix);
  const notes = values<Note>('notes');
  const keys = new IdempotencyStore(values('keys'));
  const publisher = new NatsPublisher(connection, manager, { prefix, bounds, counts });
  const consumption = new NatsConsumer(link, { prefix, ackWaitMs, counts, events, letters, notes });
  const parts = { link, counts, events, letters, notes, keys, publisher, consumption };
  const queue = new NatsQueue(parts);
  await queue.refresh();
  return { queue, close: () => queue.close().then(() => true) };
}

interface Parts {
  link: NatsLink;
  counts: NatsCounts;
  events: NatsEvents;
  letters: DeadLetterStore;
  notes: RevisionedStore<Note>;
  keys: IdempotencyStore;
  publisher: NatsPublisher;
  consumption: NatsConsumer;
}

class NatsQueue implements Queue {
  readonly durable = true;
  readonly #parts: Parts;
  /** Messages on their way to JetStream, by id. They may come back as deliveries before their acknowledgement does. */
  readonly #publishing = new Set<string>();
  /** Dead letters that are becoming messages. */
  readonly #redriving = new Map<string, Promise<unknown>>();
  readonly #refreshing: NodeJS.Timeout;
  readonly #forgetLink: () => void;
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.consumption.onArrival = (pending) => {
      if (this.#publishing.has(pending.id)) this.#accept(pending.id, pending);
      parts.counts.arrived(pending.streamSequence, pending.bytes, pending.acceptedAt);
    };
    this.#refreshing = setInterval(() => void this.refresh().catch(() => {}), REFRESH_MS).unref();
    this.#forgetLink = parts.link.onUp(() => parts.consumption.renew());
  }

  /** Reads what all nodes have done. @throws {Error} when NATS does not answer */
  async refresh(): Promise<void> {
    if (!this.#parts.link.up) return;
    await this.#parts.counts.refresh(() => this.#parts.consumption.own());
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
    return this.#closed ? () => {} : this.#parts.consumption.onReady(listener);
  }

  /** JetStream itself counts the deliveries of a message, so nothing has to be recorded. */
  take(max: number): Delivery[] {
    return this.#closed ? [] : this.#parts.consumption.take(max);
  }

  markRunning(delivery: Delivery): Promise<void> {
    return this.#parts.consumption.markRunning(delivery);
  }

  settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    return this.#parts.consumption.settle(delivery, settlement);
  }

  async find(id: string): Promise<Progress | undefined> {
    this.#checkReachable();
    const { consumption, publisher, notes, letters, events } = this.#parts;
    await this.#redriving.get(id)?.catch(() => {});
    const pending = consumption.find(id);
    if (pending?.isRunning) return { state: 'running', attempt: pending.note.attempts + 1 };
    // A message is stored before its letter goes, and goes after its letter is stored: at worst it is found twice.
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
    return this.#parts.counts.counts(this.#parts.consumption.own());
  }

  oldest(): number | undefined {
    return this.#parts.counts.oldest(this.#parts.consumption.unsettled());
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
    clearInterval(this.#refreshing);
    this.#forgetLink();
    await this.#parts.consumption.close();
    this.#parts.events.close();
  }

  #checkOpen(): void {
    if (this.#closed) throw new Error('the queue is closed');
    this.#checkReachable();
  }

  /** What is asked while there is no connection would wait in memory, without a bound. */
  #checkReachable(): void {
    if (!this.#parts.link.up) throw new Error('the queue cannot be reached: there is no connection to NATS');
  }

  async #publish(message: Message, options: PublishOptions = {}): Promise<Published> {
    const { counts, publisher } = this.#parts;
    const { id, body } = message;
    // What is refused here is no operation that would make the numbers of others useless.
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

  /** The message is stored first. Of several nodes that do so at once, one is not told that it is there already. */
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
