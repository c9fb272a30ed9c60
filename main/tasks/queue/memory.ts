import type { QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import { Backlog, type BacklogBounds } from './backlog.ts';
import { DeadLetters } from './dead-letters.ts';
import { heldBytes } from './held-bytes.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';
import type { Entry, Journal } from './journal.ts';
import type {
  DeadLetter,
  Delivery,
  KeyedSubmission,
  ListedDeadLetter,
  Message,
  Progress,
  Queue,
  QueueCounts,
  Settlement,
  SettlementOf,
  TaskEvent,
  UnsyncedRows,
} from './queue.ts';

/** Longest delay of a restored message, in case the clock was set back since the snapshot. */
const LONGEST_WAIT_MS = 60_000;

/** Promise for a change that needs no record in a journal. */
const RECORDED = Promise.resolve();

export interface QueueBounds extends BacklogBounds {
  /** Most idempotency keys that are kept. */
  maxKeys: number;
}

export interface MemoryQueueOptions {
  deadLetters?: DeadLetters;
  /** Makes the queue durable. */
  journal?: Journal;
  /** Contents of an earlier queue. */
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
export class MemoryQueue implements Queue {
  readonly durable: boolean;
  readonly #backlog: Backlog;
  readonly #deadLetters: DeadLetters;
  readonly #keys: IdempotencyKeys;
  readonly #onEvent: (event: TaskEvent) => void;
  #journal: Journal | undefined;
  #clearSnapshot: (() => void) | undefined;
  /** Ids of dead letters whose redrive is being recorded. */
  readonly #redriving = new Set<string>();
  /** Last sequence number. The initial value, microseconds since the epoch, is above those of earlier processes. */
  #lastSequence = Date.now() * 1000;
  #accepted = 0;
  #completed = 0;
  #onReady = () => {};
  #closed = false;

  constructor(bounds: QueueBounds, options: MemoryQueueOptions = {}) {
    const { deadLetters = new DeadLetters(), journal, snapshot, clearSnapshot, onEvent = () => {} } = options;
    this.#onEvent = onEvent;
    this.#backlog = new Backlog(bounds, () => this.#onReady());
    this.#deadLetters = deadLetters;
    this.#keys = new IdempotencyKeys(bounds.maxKeys);
    this.durable = journal !== undefined;
    this.#journal = journal;
    this.#clearSnapshot = clearSnapshot;
    if (snapshot !== undefined) this.#restore(snapshot);
  }

  async publish(message: Message, keyed?: KeyedSubmission): Promise<string> {
    const now = Date.now();
    const earlier = keyed && this.#keys.taskOf(keyed, now);
    if (earlier !== undefined) return earlier;
    const entry = this.#entry(message, { acceptedAt: now });
    const record = keyed && { key: keyed.key, fingerprint: keyed.fingerprint, taskId: message.id, acceptedAt: now };
    const evictedKeys = record && this.#keys.begin(record);
    let accepted = false;
    try {
      const written = this.#journal?.accept(entry, record, evictedKeys);
      if (written !== undefined) await this.#backlog.reserve(entry.bytes, written);
      accepted = true;
    } finally {
      if (record !== undefined) this.#keys.end(record.key, accepted ? evictedKeys : undefined);
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
    const deliveries: Delivery[] = [];
    while (deliveries.length < max && !this.#closed) {
      const delivery = this.#backlog.take();
      if (delivery === undefined) break;
      deliveries.push(delivery);
    }
    return this.#journal === undefined || deliveries.length === 0
      ? deliveries
      : this.#record(deliveries, this.#journal);
  }

  markRunning(delivery: Delivery): Promise<void> {
    const entry = this.#backlog.entryOf(delivery);
    if (entry === undefined) return RECORDED;
    this.#backlog.markRunning(entry);
    this.#onEvent({ event: 'started', id: entry.id, attempt: delivery.attempt });
    return (entry.suspect ? this.#journal?.update(entry, true) : undefined) ?? RECORDED;
  }

  settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    const entry = this.#backlog.endDelivery(delivery);
    if (entry === undefined) return RECORDED;
    switch (settlement.kind) {
      case 'ack':
        return this.#complete(entry);
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
    if (this.#redriving.has(id)) return { state: 'queued' };
    const letter = this.#deadLetters.get(id);
    return letter === undefined ? this.#backlog.find(id) : { state: 'failed', letter };
  }

  counts(): QueueCounts {
    const { waiting, delayed, inFlight, bytes } = this.#backlog;
    return {
      accepted: this.#accepted,
      completed: this.#completed,
      dead: this.#deadLetters.size + this.#redriving.size,
      dropped: this.#deadLetters.dropped,
      waiting,
      delayed,
      inFlight,
      bytes,
    };
  }

  /** Number of dead letters that were evicted because of a bound. */
  get evicted(): number {
    return this.#deadLetters.evicted;
  }

  /** Returns the reason why the journal cannot write, or undefined if it can or there is no journal. */
  problem(): string | undefined {
    return this.#journal?.problem();
  }

  /** Returns the completed tasks that the journal keeps because the sync of their rows failed. */
  unsynced(): UnsyncedRows {
    return this.#journal?.unsynced() ?? { tasks: 0, reason: '' };
  }

  oldest(): number | undefined {
    return this.#backlog.oldest;
  }

  async newestDeadLetters(limit: number): Promise<readonly ListedDeadLetter[]> {
    const read = async ({ id }: DeadLetter) => this.#deadLetters.get(id);
    const newest = this.#deadLetters.list().slice(-limit).reverse();
    return newest.map((letter) => ({ bytes: Buffer.byteLength(letter.body), read: () => read(letter) }));
  }

  async redrive(id: string): Promise<boolean> {
    const letter = this.#deadLetters.get(id);
    if (letter === undefined) return false;
    const { sequence, acceptedAt } = letter;
    const entry = this.#entry(letter, { sequence, acceptedAt });
    this.#deadLetters.take(letter);
    this.#redriving.add(id);
    try {
      const written = this.#journal?.redrive(entry);
      if (written !== undefined) await this.#backlog.reserve(entry.bytes, written);
    } catch (error) {
      this.#addDeadLetter(letter);
      throw error;
    } finally {
      this.#redriving.delete(id);
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
    const messages = this.#backlog.list();
    return { messages, deadLetters: this.#deadLetters.list(), keys: this.#keys.list() };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#backlog.close();
    const journal = this.#journal;
    // Later settlements are not recorded. The next process delivers these messages again, which is harmless.
    this.#journal = undefined;
    await journal?.close();
  }

  /** Creates the entry of a message, without attempts. @throws {QueueFull} if a bound is reached */
  #entry({ id, body }: Message, { acceptedAt, sequence }: { acceptedAt: number; sequence?: number }): Entry {
    if (this.#closed) throw new Error('the queue is closed');
    const bytes = heldBytes({ body, reason: null });
    this.#backlog.checkRoom(bytes);
    const order = { sequence: sequence ?? ++this.#lastSequence, position: this.#backlog.nextPosition() };
    return { id, body, ...order, bytes, attempts: 0, crashes: 0, suspect: false, reason: null, dueAt: 0, acceptedAt };
  }

  #restore({ messages, deadLetters, keys }: QueueSnapshot): void {
    const latest = Date.now() + LONGEST_WAIT_MS;
    for (const message of messages) {
      this.#backlog.add({ ...message, bytes: heldBytes(message), dueAt: Math.min(message.dueAt, latest) });
    }
    for (const letter of deadLetters) this.#addDeadLetter(letter);
    for (const record of keys) this.#keys.add(record);
    for (const { sequence } of [...messages, ...deadLetters])
      this.#lastSequence = Math.max(this.#lastSequence, sequence);
    this.#accepted = messages.length + deadLetters.length;
  }

  /** Adds a dead letter that is stored already. */
  #addDeadLetter(letter: DeadLetter): void {
    for (const evicted of this.#deadLetters.add(letter)) void this.#journal?.purge(evicted).catch(() => {});
  }

  #enqueue(entry: Entry): void {
    this.#onEvent({ event: 'accepted', id: entry.id });
    this.#backlog.add(entry);
    this.#onReady();
  }

  /** Records that deliveries are in flight. Suspects need no record: they stay suspects until an attempt has ended. */
  async #record(deliveries: Delivery[], journal: Journal): Promise<Delivery[]> {
    const entries = deliveries.flatMap((delivery) => this.#backlog.entryOf(delivery) ?? []);
    try {
      await Promise.all(entries.map((entry) => (entry.suspect ? undefined : journal.update(entry, true))));
      return deliveries;
    } catch (error) {
      for (const delivery of deliveries) this.settle(delivery, { kind: 'release' }).catch(() => {});
      throw error;
    }
  }

  #complete(entry: Entry): Promise<void> {
    this.#completed += 1;
    this.#onEvent({ event: 'completed', id: entry.id });
    this.#backlog.remove(entry);
    return this.#journal?.complete(entry) ?? RECORDED;
  }

  #postpone(entry: Entry, { delayMs, reason }: SettlementOf<'retry' | 'snooze'>): Promise<void> {
    this.#backlog.postpone(entry, Date.now() + delayMs, reason);
    const { id, attempts, dueAt } = entry;
    this.#onEvent({ event: 'retrying', id, attempts, reason, dueAt });
    return this.#journal?.update(entry, false) ?? RECORDED;
  }

  async #deadLetter(entry: Entry, { reason, attempts }: SettlementOf<'discard'>): Promise<void> {
    this.#backlog.remove(entry);
    const { id, body, sequence, acceptedAt } = entry;
    const letter = { id, body, sequence, reason, attempts, acceptedAt, failedAt: Date.now() };
    const evicted = this.#deadLetters.add(letter);
    this.#onEvent({ event: 'failed', id, attempts, reason });
    const journal = this.#journal;
    if (journal !== undefined)
      await Promise.all([journal.deadLetter(letter), ...evicted.map((old) => journal.purge(old))]);
  }
}
