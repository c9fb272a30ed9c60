import { withAttempt } from '../../../db/attempt-history.ts';
import type { QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import { Backlog, type Entry, entryOf } from './backlog.ts';
import { Cancellations } from './cancellations.ts';
import { DeadLetterQueue } from './dead-letter-queue.ts';
import { DeadLetterStore } from './dead-letter-store.ts';
import { DeadLetters } from './dead-letters.ts';
import { subjectOf } from './event-subject.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';
import { InFlightRecords } from './in-flight-records.ts';
import { listBacklog } from './listing.ts';
import type { LocalQueueOptions } from './local-queue-options.ts';
import type {
  Delivery,
  KeyedSubmission,
  ListedState,
  Message,
  Progress,
  Queue,
  QueueBounds,
  QueueCounts,
  Settlement,
  SettlementOf,
  TaskEvent,
  TaskListing,
  TaskProgress,
} from './queue.ts';
import type { Journal } from './sqlite-journal.ts';

export type { LocalQueueOptions };

/** Maximum delay of a message restored at startup. A longer delay means that the clock was set back. */
const LONGEST_WAIT_MS = 24 * 60 * 60 * 1000;

const RECORDED = Promise.resolve();

/** In-memory queue. With a journal, its messages survive the death of the process. */
export class LocalQueue extends DeadLetterQueue implements Queue {
  readonly durable: boolean;
  readonly #backlog: Backlog;
  readonly #deadLetters: DeadLetterStore;
  readonly #keys: IdempotencyKeys;
  protected readonly deadLettering: DeadLetters;
  readonly #cancellations: Cancellations;
  readonly #inFlightRecords: InFlightRecords;
  readonly #onEvent: (event: TaskEvent) => void;
  #journal: Journal | undefined;
  #clearSnapshot: (() => void) | undefined;
  /** Starts at the time in microseconds, so that sequence numbers exceed all sequence numbers of earlier processes. */
  #lastSequence = Date.now() * 1000;
  #accepted = 0;
  #completed = 0;
  #onReady = () => {};
  #closed = false;

  constructor(bounds: QueueBounds, options: LocalQueueOptions = {}) {
    super(options.snapshot?.paused);
    this.#onEvent = options.onEvent ?? (() => {});
    this.#backlog = new Backlog(bounds, () => this.#onReady());
    const release = (delivery: Delivery) => void this.settle(delivery, { kind: 'release' }).catch(() => {});
    this.#inFlightRecords = new InFlightRecords(this.#backlog, release);
    this.#deadLetters = options.deadLetters ?? new DeadLetterStore();
    this.#keys = new IdempotencyKeys(bounds.maxKeys);
    this.durable = options.journal !== undefined;
    this.#journal = options.journal;
    const shared = { backlog: this.#backlog, journal: () => this.#journal, onEvent: this.#onEvent };
    this.deadLettering = new DeadLetters({
      ...shared,
      deadLetters: this.#deadLetters,
      enqueue: (entry) => this.#enqueue(entry),
    });
    this.#cancellations = new Cancellations({ ...shared, onReady: () => this.#onReady() });
    this.#clearSnapshot = options.clearSnapshot;
    if (options.snapshot !== undefined) this.#restore(options.snapshot);
  }

  async publish(message: Message, keyed?: KeyedSubmission): Promise<string> {
    const now = Date.now();
    const earlier = keyed && this.#keys.taskOf(keyed, now);
    if (earlier !== undefined) return earlier;
    const entry = this.#backlog.createEntry(message, ++this.#lastSequence, now);
    const record = keyed && { key: keyed.key, fingerprint: keyed.fingerprint, taskId: message.id, acceptedAt: now };
    const write = async (evictedKeys?: readonly string[]) => this.#journal?.accept(entry, record, evictedKeys);
    this.#backlog.reserve(entry);
    try {
      await (record === undefined ? write() : this.#keys.accept(record, write));
    } finally {
      this.#backlog.unreserve(entry);
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
    const deliveries = this.paused ? [] : this.#backlog.take(max);
    if (this.#journal === undefined || deliveries.length === 0) return deliveries;
    return this.#inFlightRecords.record(deliveries, this.#journal);
  }

  async cancel(id: string): Promise<'cancelled' | 'running' | undefined> {
    await this.deadLettering.settled(id);
    return this.#cancellations.cancel(id, (delivery) => !this.#inFlightRecords.has(delivery));
  }

  onCancel(listener: (delivery: Delivery) => boolean): () => void {
    return this.#cancellations.onCancel(listener);
  }

  reportProgress(delivery: Delivery, progress: TaskProgress): void {
    const entry = this.#backlog.setProgress(delivery, progress);
    if (entry === undefined) return;
    this.#onEvent({ event: 'progress', ...subjectOf(entry), attempt: delivery.attempt, ...progress });
  }

  markRunning(delivery: Delivery): Promise<void> {
    const entry = this.#backlog.markRunning(delivery);
    if (entry === undefined) return RECORDED;
    this.#onEvent({ event: 'started', ...subjectOf(entry), attempt: delivery.attempt });
    return (entry.suspect && this.#journal?.update(entry, true)) || RECORDED;
  }

  settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    const entry = this.#backlog.endDelivery(delivery);
    if (entry === undefined) return RECORDED;
    switch (settlement.kind) {
      case 'ack':
        this.#completed += 1;
        this.#onEvent({ event: 'completed', ...subjectOf(entry) });
        this.#backlog.remove(entry);
        return this.#journal?.complete(entry) ?? RECORDED;
      case 'retry':
        entry.attempts += 1;
        if (settlement.failure === 'crash') entry.crashes += 1;
        entry.suspect = false;
        entry.history = withAttempt(entry.history, Date.now(), settlement.reason);
        return this.#postpone(entry, settlement);
      case 'snooze':
        return this.#postpone(entry, settlement);
      case 'discard':
        return this.deadLettering.discard(entry, settlement);
      case 'release':
        this.#backlog.putBack(entry);
        this.#onReady();
        return this.#journal?.update(entry, false) ?? RECORDED;
      case 'cancel':
        this.#backlog.remove(entry);
        this.#cancellations.note(entry);
        return this.#journal?.cancelRunning(entry) ?? RECORDED;
    }
  }

  async find(id: string): Promise<Progress | undefined> {
    return this.#deadLetters.find(id) ?? this.#backlog.find(id);
  }

  listTasks(state: ListedState, admit: (bytes: number) => Promise<void>): Promise<TaskListing> {
    return listBacklog(this.#backlog, state, admit);
  }

  counts(): QueueCounts {
    return {
      accepted: this.#accepted,
      completed: this.#completed,
      dead: this.#deadLetters.size,
      dropped: this.#deadLetters.dropped,
      cancelled: this.#cancellations.count,
      ...this.#backlog.counts(),
    };
  }

  oldest(): number | undefined {
    return this.#backlog.oldest;
  }

  snapshot(): QueueSnapshot {
    return {
      messages: this.#backlog.list(),
      deadLetters: this.#deadLetters.list(),
      keys: this.#keys.list(),
      paused: this.paused,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#backlog.close();
    const journal = this.#journal;
    // Settlements after `close` are not written to the journal, so the next process redelivers the messages.
    this.#journal = undefined;
    await journal?.close();
  }

  protected override async storePause(isPaused: boolean): Promise<void> {
    await this.#journal?.storePause(isPaused);
  }

  protected override setPaused(isPaused: boolean): boolean {
    const isChange = super.setPaused(isPaused);
    if (!isPaused) this.#onReady();
    return isChange;
  }

  #restore({ messages, deadLetters, keys }: QueueSnapshot): void {
    const latest = Date.now() + LONGEST_WAIT_MS;
    for (const message of messages) {
      this.#backlog.add(entryOf({ ...message, dueAt: Math.min(message.dueAt, latest) }));
    }
    for (const letter of deadLetters) this.deadLettering.add(letter);
    for (const record of keys) this.#keys.add(record);
    const stored = [...messages, ...deadLetters];
    for (const { sequence } of stored) this.#lastSequence = Math.max(this.#lastSequence, sequence);
    this.#accepted = stored.length;
  }

  #enqueue(entry: Entry): void {
    this.#onEvent({ event: 'accepted', ...subjectOf(entry) });
    this.#backlog.add(entry);
    this.#onReady();
  }

  #postpone(entry: Entry, { delayMs, reason }: SettlementOf<'retry' | 'snooze'>): Promise<void> {
    this.#backlog.postpone(entry, Date.now() + delayMs, reason);
    this.#onEvent({ event: 'retrying', ...subjectOf(entry), attempts: entry.attempts, reason, dueAt: entry.dueAt });
    return this.#journal?.update(entry, false) ?? RECORDED;
  }
}
