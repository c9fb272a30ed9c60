import { randomUUID } from 'node:crypto';
import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import { NatsLink } from '../../../engines/nats-link.ts';
import type {
  Consumer,
  Delivery,
  IdempotencyKey,
  ListedDeadLetter,
  Message,
  OpenQueue,
  Progress,
  QueueCounts,
  QueueDriver,
  TaskEvent,
} from '../driver.ts';
import type { QueueBounds } from '../memory.ts';
import { NatsConsumption } from './consumption.ts';
import { NatsCounts } from './counts.ts';
import { NatsEvents } from './events.ts';
import { TIME_LIMIT_MS } from './holding.ts';
import { NatsKeys } from './keys.ts';
import { NatsLetters } from './letters.ts';
import type { Note } from './notes.ts';
import { NatsPublisher, type Published, type PublishOptions } from './publisher.ts';
import { ACK_WAIT_MS, setUpStreams, streamName, subject, token } from './streams.ts';
import { NatsValues } from './values.ts';

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
    new NatsValues<Value>(manager, streamName(prefix, kind), (name) => subject(prefix, kind, name));
  const counts = new NatsCounts(manager, prefix);
  const events = new NatsEvents(link, `${prefix}.events`, randomUUID(), onEvent);
  const letters = new NatsLetters(manager, prefix);
  const notes = values<Note>('notes');
  const keys = new NatsKeys(values('keys'));
  const publisher = new NatsPublisher(connection, manager, { prefix, bounds, counts });
  const consumption = new NatsConsumption(link, { prefix, ackWaitMs, counts, events, letters, notes });
  const parts = { link, counts, events, letters, notes, keys, publisher, consumption };
  const queue = new NatsQueue(parts);
  await queue.refresh();
  return { queue, close: () => queue.close().then(() => true) };
}

interface Parts {
  link: NatsLink;
  counts: NatsCounts;
  events: NatsEvents;
  letters: NatsLetters;
  notes: NatsValues<Note>;
  keys: NatsKeys;
  publisher: NatsPublisher;
  consumption: NatsConsumption;
}

class NatsQueue implements QueueDriver {
  readonly durable = true;
  readonly #parts: Parts;
  /** Messages on their way to JetStream, by id. They may come back as deliveries before their acknowledgement does. */
  readonly #publishing = new Set<string>();
  /** Dead letters that are becoming messages. */
  readonly #reviving = new Map<string, Promise<unknown>>();
  readonly #refreshing: NodeJS.Timeout;
  readonly #forgetLink: () => void;
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.consumption.onArrival = (held) => {
      if (this.#publishing.has(held.id)) this.#accept(held.id, held);
      parts.counts.arrived(held.place, held.bytes, held.acceptedAt);
    };
    this.#refreshing = setInterval(() => void this.refresh().catch(() => {}), REFRESH_MS).unref();
    this.#forgetLink = parts.link.onUp(() => parts.consumption.renew());
  }

  /** Reads what all nodes have done. @throws {Error} when NATS does not answer */
  async refresh(): Promise<void> {
    if (!this.#parts.link.up) return;
    await this.#parts.counts.refresh(() => this.#parts.consumption.own());
  }

  async publish(message: Message, key?: IdempotencyKey): Promise<string> {
    this.#checkOpen();
    if (key === undefined) {
      await this.#publish(message);
      return message.id;
    }
    return this.#parts.keys.take(key, message.id, async (messageId, id) => {
      // The body names its task first of all.
      const { duplicate, place } = await this.#publish(
        { id, body: message.body.replace(message.id, id) },
        { messageId },
      );
      return duplicate ? this.#parts.publisher.idAt(place) : id;
    });
  }

  consume(prefetch: number, receive: (delivery: Delivery) => void): Consumer {
    if (this.#closed) throw new Error('the queue is closed');
    return this.#parts.consumption.consume(prefetch, receive);
  }

  async find(id: string): Promise<Progress | undefined> {
    this.#checkReachable();
    const { consumption, publisher, notes, letters, events } = this.#parts;
    await this.#reviving.get(id)?.catch(() => {});
    const held = consumption.find(id);
    if (held?.begun) return { state: 'running', attempt: held.note.attempts + 1 };
    // A message is stored before its letter goes, and goes after its letter is stored: at worst it is found twice.
    if (await publisher.isStored(id)) {
      const attempt = events.attemptElsewhere(id);
      if (held === undefined && attempt !== undefined) return { state: 'running', attempt };
      const note = await notes.get(token(id));
      if (held !== undefined || note === undefined || note.value.dueAt <= Date.now()) return { state: 'queued' };
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
    const read = async (place: number) => {
      this.#checkReachable();
      return this.#parts.letters.read(place);
    };
    const newest = await this.#parts.letters.newest(limit);
    return newest.map(({ place, bytes }) => ({ bytes, read: () => read(place) }));
  }

  async retryDeadLetter(id: string): Promise<boolean> {
    const earlier = this.#reviving.get(id);
    if (earlier !== undefined) await earlier.catch(() => {});
    const reviving = this.#parts.counts.during(() => this.#revive(id));
    this.#reviving.set(id, reviving);
    try {
      return await reviving;
    } finally {
      if (this.#reviving.get(id) === reviving) this.#reviving.delete(id);
    }
  }

  async deleteDeadLetter(id: string): Promise<boolean> {
    this.#checkReachable();
    const { counts, letters } = this.#parts;
    return counts.during(async () => {
      const stored = await letters.get(id);
      const removed = stored !== undefined && (await letters.remove(stored.place));
      if (removed) counts.unburied(false);
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

  #accept(id: string, { place, bytes }: Pick<Published, 'place' | 'bytes'>): void {
    this.#publishing.delete(id);
    this.#parts.counts.stored(place, bytes);
    this.#parts.events.tell({ event: 'accepted', id });
  }

  /** The message is stored first. Of several nodes that do so at once, one is not told that it is there already. */
  async #revive(id: string): Promise<boolean> {
    this.#checkOpen();
    const { letters, counts } = this.#parts;
    const stored = await letters.get(id);
    if (stored === undefined) return false;
    const { letter, place, taskPlace } = stored;
    const { body, seq, firstAt: acceptedAt } = letter;
    const messageId = `${token(id)} ${taskPlace}`;
    const { duplicate } = await this.#publish({ id, body }, { messageId, seq, acceptedAt });
    const removed = await letters.remove(place);
    if (removed) counts.unburied(true);
    return removed || !duplicate;
  }
}
