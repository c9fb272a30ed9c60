import type { QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import { Backlog, type Entry } from './backlog.ts';
import { DeadLetters } from './dead-letters.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';
import type {
  DeadLetter,
  Delivery,
  KeyedSubmission,
  ListedDeadLetter,
  Message,
  Progress,
  Queue,
  QueueBounds,
  QueueCounts,
  Settlement,
  SettlementOf,
  TaskEvent,
} from './queue.ts';
import type { Journal } from './sqlite-journal.ts';
import { textMemoryBytes } from './text-memory.ts';

/** Maximum delay of a message from the previous process, in case the clock was set back since it was stored. */
const LONGEST_WAIT_MS = 60_000;

/** Promise returned for a change that is not written to a journal. */
const RECORDED = Promise.resolve();

export interface LocalQueueOptions {
  deadLetters?: DeadLetters;
  /** Stores every change in a file, which makes the queue durable. If absent, the queue is in memory only. */
  journal?: Journal;
  /** Contents of the previous process's queue, with which the queue starts. */
  snapshot?: QueueSnapshot;
  /** Deletes the stored copy of `snapshot`. Called just before the first delivery, so that a failed start loses nothing. */
  clearSnapshot?: () => void;
  /** Called at every state change of a message. */
  onEvent?: (event: TaskEvent) => void;
}

/**
 * The in-memory driver of the specification, whose messages are lost when the process is killed. With a journal, which records
 * every change, the queue is durable.
 */
export class LocalQueue implements Queue {
  readonly durable: boolean;
  readonly #backlog: Backlog;
  readonly #deadLetters: DeadLetters;
  readonly #keys: IdempotencyKeys;
  readonly #onEvent: (event: TaskEvent) => void;
  #journal: Journal | undefined;
  #clearSnapshot: (() => void) | undefined;
  /** Number of the last accepted message. Starts at the microseconds since the epoch, above the numbers of earlier processes. */
  #lastSequence = Date.now() * 1000;
  #accepted = 0;
  #completed = 0;
  #onReady = () => {};
  #closed = false;

  constructor(bounds: QueueBounds, options: LocalQueueOptions = {}) {
    this.#onEvent = options.onEvent ?? (() => {});
    this.#backlog = new Backlog(bounds, () => this.#onReady());
    this.#deadLetters = options.deadLetters ?? new DeadLetters();
    this.#keys = new IdempotencyKeys(bounds.maxKeys);
    this.durable = options.journal !== undefined;
    this.#journal = options.journal;
    this.#clearSnapshot = options.clearSnapshot;
    if (options.snapshot !== undefined) this.#restore(options.snapshot);
  }

  async publish(message: Message, keyed?: KeyedSubmission): Promise<string> {
    const now = Date.now();
    const earlier = keyed && this.#keys.taskOf(keyed, now);
    if (earlier !== undefined) return earlier;
    const entry = this.#backlog.createEntry(message, ++this.#lastSequence, now);
    const record = keyed && { key: keyed.key, fingerprint: keyed.fingerprint, taskId: message.id, acceptedAt: now };
    const evictedKeys = record && this.#keys.reserve(record);
    let accepted = false;
    try {
      const written = this.#journal?.accept(entry, record, evictedKeys);
      if (written !== undefined) await this.#backlog.reserve(entry.bytes, written);
      accepted = true;
    } finally {
      if (record !== undefined) this.#keys.settle(record.key, accepted ? evictedKeys : undefined);
    }
    this.#accepted += 1;
    this.#enqueue(entry);
    return message.id;
  }

  onReady(listener: () => void): () => void {
    if (this.#closed) return () => {};
    this.#clearSnapshot?.();
    this.#clearSnapshot = undefined;
    this.#onReady = listener;
    return () => {
      if (this.#onReady === listener) this.#onReady = () => {};
    };
  }

  take(max: number): Delivery[] | Promise<Delivery[]> {
    const deliveries = this.#backlog.take(max);
    if (this.#journal === undefined || deliveries.length === 0) return deliveries;
    return this.#recordInFlight(deliveries, this.#journal);
  }

  markRunning(delivery: Delivery): Promise<void> {
    const entry = this.#backlog.entryOf(delivery);
    if (entry === undefined) return RECORDED;
    this.#backlog.markRunning(entry);
    this.#onEvent({ event: 'started', id: entry.id, attempt: delivery.attempt });
    return (entry.suspect && this.#journal?.update(entry, true)) || RECORDED;
  }

  settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    const entry = this.#backlog.endDelivery(delivery);
    if (entry === undefined) return RECORDED;
    switch (settlement.kind) {
      case 'ack':
        this.#completed += 1;
        this.#onEvent({ event: 'completed', id: entry.id });
        this.#backlog.remove(entry);
        return this.#journal?.complete(entry) ?? RECORDED;
      case 'retry':
        entry.attempts += 1;
        if (settlement.failure === 'crash') entry.crashes += 1;
        entry.suspect = false;
        return this.#postpone(entry, settlement);
      case 'snooze':
        return this.#postpone(entry, settlement);
      case 'discard':
        return this.#deadLetter(entry, settlement);
      case 'release':
        this.#backlog.putBack(entry);
        this.#onReady();
        return this.#journal?.update(entry, false) ?? RECORDED;
    }
  }

  async find(id: string): Promise<Progress | undefined> {
    return this.#deadLetters.find(id) ?? this.#backlog.find(id);
  }

  counts(): QueueCounts {
    return {
      accepted: this.#accepted,
      completed: this.#completed,
      dead: this.#deadLetters.size,
      dropped: this.#deadLetters.dropped,
      ...this.#backlog.counts(),
    };
  }

  oldest(): number | undefined {
    return this.#backlog.oldest;
  }

  async newestDeadLetters(limit: number): Promise<readonly ListedDeadLetter[]> {
    return this.#deadLetters.newest(limit);
  }

  async redrive(id: string): Promise<boolean> {
    const letter = this.#deadLetters.get(id);
    if (letter === undefined) return false;
    const entry = this.#backlog.createEntry(letter, letter.sequence, letter.acceptedAt);
    const endRedrive = this.#deadLetters.startRedrive(letter);
    try {
      const written = this.#journal?.redrive(entry);
      if (written !== undefined) await this.#backlog.reserve(entry.bytes, written);
    } catch (error) {
      this.#addDeadLetter(letter);
      throw error;
    } finally {
      endRedrive();
    }
    this.#enqueue(entry);
    return true;
  }

  async purge(id: string): Promise<boolean> {
    const letter = this.#deadLetters.get(id);
    if (letter === undefined) return false;
    this.#deadLetters.drop(letter);
    await this.#journal?.purge(letter);
    return true;
  }

  /** Returns the contents of the queue, for the next process. */
  snapshot(): QueueSnapshot {
    return { messages: this.#backlog.list(), deadLetters: this.#deadLetters.list(), keys: this.#keys.list() };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#backlog.close();
    const journal = this.#journal;
    // Settlements from here on are not written to the journal. The next process delivers their messages again, which is harmless.
    this.#journal = undefined;
    await journal?.close();
  }

  #restore({ messages, deadLetters, keys }: QueueSnapshot): void {
    const latest = Date.now() + LONGEST_WAIT_MS;
    for (const message of messages) {
      this.#backlog.add({ ...message, bytes: textMemoryBytes(message), dueAt: Math.min(message.dueAt, latest) });
    }
    for (const letter of deadLetters) this.#addDeadLetter(letter);
    for (const record of keys) this.#keys.add(record);
    const stored = [...messages, ...deadLetters];
    for (const { sequence } of stored) this.#lastSequence = Math.max(this.#lastSequence, sequence);
    this.#accepted = stored.length;
  }

  #addDeadLetter(letter: DeadLetter): void {
    for (const evicted of this.#deadLetters.add(letter)) void this.#journal?.purge(evicted).catch(() => {});
  }

  #enqueue(entry: Entry): void {
    this.#onEvent({ event: 'accepted', id: entry.id });
    this.#backlog.add(entry);
    this.#onReady();
  }

  /** Writes that messages are in flight, except suspects, which are stored as suspects until an attempt has ended. */
  async #recordInFlight(deliveries: Delivery[], journal: Journal): Promise<Delivery[]> {
    const entries = deliveries.flatMap((delivery) => this.#backlog.entryOf(delivery) ?? []);
    try {
      await Promise.all(entries.map((entry) => (entry.suspect ? undefined : journal.update(entry, true))));
      return deliveries;
    } catch (error) {
      for (const delivery of deliveries) this.settle(delivery, { kind: 'release' }).catch(() => {});
      throw error;
    }
  }

  #postpone(entry: Entry, { delayMs, reason }: SettlementOf<'retry' | 'snooze'>): Promise<void> {
    this.#backlog.postpone(entry, Date.now() + delayMs, reason);
    this.#onEvent({ event: 'retrying', id: entry.id, attempts: entry.attempts, reason, dueAt: entry.dueAt });
    return this.#journal?.update(entry, false) ?? RECORDED;
  }

  async #deadLetter(entry: Entry, { reason, attempts }: SettlementOf<'discard'>): Promise<void> {
    this.#backlog.remove(entry);
    const { id, body, sequence, acceptedAt } = entry;
    const letter = { id, body, sequence, reason, attempts, acceptedAt, failedAt: Date.now() };
    const evicted = this.#deadLetters.add(letter);
    this.#onEvent({ event: 'failed', id, attempts, reason });
    await Promise.all([this.#journal?.deadLetter(letter), ...evicted.map((old) => this.#journal?.purge(old))]);
  }
}
