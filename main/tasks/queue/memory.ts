import { Backlog, type BacklogBounds } from './backlog.ts';
import { DeadLetters } from './dead-letters.ts';
import type {
  Consumer,
  DeadLetter,
  Delivery,
  IdempotencyKey,
  ListedDeadLetter,
  Message,
  Progress,
  QueueCounts,
  QueueDriver,
  TaskEvent,
  UnsyncedRows,
  Verdict,
} from './driver.ts';
import { heldBytes } from './held-bytes.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';
import type { Entry, Holdings, Journal } from './journal.ts';

/** Longer than any retry waits; one that was written down may seem to, where the clock was set back meanwhile. */
const LONGEST_WAIT_MS = 60_000;

export interface QueueBounds extends BacklogBounds {
  /** Idempotency keys that are remembered. */
  maxKeys: number;
}

export interface MemoryQueueOptions {
  deadLetters?: DeadLetters;
  /** What makes the queue outlive its process. */
  journal?: Journal;
  /** What an earlier queue left. */
  holdings?: Holdings;
  /** Deletes the stored copy of `holdings`. Called before the first delivery; until then, a start that fails can be repeated. */
  clearHoldings?: () => void;
  /** Told of every step of every message. */
  onEvent?: (event: TaskEvent) => void;
}

/**
 * The in-memory driver of the specification: what it holds is gone when the process is killed. Given a journal, it
 * holds the same in memory and writes down what becomes of it.
 */
export class MemoryQueue implements QueueDriver {
  readonly durable: boolean;
  readonly #backlog: Backlog;
  readonly #deadLetters: DeadLetters;
  readonly #keys: IdempotencyKeys;
  readonly #onEvent: (event: TaskEvent) => void;
  #journal: Journal | undefined;
  #clearHoldings: (() => void) | undefined;
  /** The `seq` of messages that were being worked on when an earlier process died, until they are tried again. */
  readonly #cut = new Set<number>();
  /** Ids of dead letters that the journal is writing down as messages. */
  readonly #reviving = new Set<string>();
  /** Begins where no earlier process can have come to: microseconds since the epoch. */
  #seqs = Date.now() * 1000;
  #accepted = 0;
  #completed = 0;
  #consumer: { prefetch: number; receive: (delivery: Delivery) => void } | undefined;
  #handingOut = false;
  #closed = false;

  constructor(bounds: QueueBounds, options: MemoryQueueOptions = {}) {
    const { deadLetters = new DeadLetters(), journal, holdings, clearHoldings, onEvent = () => {} } = options;
    this.#onEvent = onEvent;
    this.#backlog = new Backlog(bounds, () => this.#handOut());
    this.#deadLetters = deadLetters;
    this.#keys = new IdempotencyKeys(bounds.maxKeys);
    this.durable = journal !== undefined;
    this.#journal = journal;
    this.#clearHoldings = clearHoldings;
    if (holdings !== undefined) this.#takeUp(holdings);
  }

  async publish(message: Message, key?: IdempotencyKey): Promise<string> {
    const now = Date.now();
    const earlier = key && this.#keys.taskOf(key, now);
    if (earlier !== undefined) return earlier;
    const entry = this.#entry(message, { firstAt: now });
    const record = key && { ...key, taskId: message.id, acceptedAt: now };
    const forgotten = record && this.#keys.begin(record);
    let accepted = false;
    try {
      const written = this.#journal?.accept(entry, record, forgotten);
      if (written !== undefined) await this.#backlog.reserve(entry.bytes, written);
      accepted = true;
    } finally {
      if (record !== undefined) this.#keys.end(record.key, accepted);
    }
    this.#accepted += 1;
    this.#enqueue(entry);
    return message.id;
  }

  consume(prefetch: number, receive: (delivery: Delivery) => void): Consumer {
    if (this.#closed) throw new Error('the queue is closed');
    if (this.#consumer !== undefined) throw new Error('the queue has a consumer already');
    this.#clearHoldings?.();
    this.#clearHoldings = undefined;
    const consumer = { prefetch, receive };
    this.#consumer = consumer;
    this.#handOut();
    return {
      stop: () => {
        if (this.#consumer === consumer) this.#consumer = undefined;
      },
    };
  }

  async find(id: string): Promise<Progress | undefined> {
    if (this.#reviving.has(id)) return { state: 'queued' };
    const letter = this.#deadLetters.get(id);
    return letter === undefined ? this.#backlog.find(id) : { state: 'failed', letter };
  }

  counts(): QueueCounts {
    const { waiting, delayed, inFlight, bytes } = this.#backlog;
    return {
      accepted: this.#accepted,
      completed: this.#completed,
      dead: this.#deadLetters.size + this.#reviving.size,
      dropped: this.#deadLetters.dropped,
      waiting,
      delayed,
      inFlight,
      bytes,
    };
  }

  /** Dead letters that were evicted because of a bound. */
  get evicted(): number {
    return this.#deadLetters.evicted;
  }

  /** Returns why the journal cannot write, or undefined when it can and when there is no journal. */
  problem(): string | undefined {
    return this.#journal?.problem();
  }

  /** Completed tasks that the journal keeps until their rows are on disk, after a failed sync. */
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

  async retryDeadLetter(id: string): Promise<boolean> {
    const letter = this.#deadLetters.get(id);
    if (letter === undefined) return false;
    const { seq, firstAt } = letter;
    const entry = this.#entry(letter, { seq, firstAt });
    this.#deadLetters.take(letter);
    this.#reviving.add(id);
    try {
      const written = this.#journal?.revive(entry);
      if (written !== undefined) await this.#backlog.reserve(entry.bytes, written);
    } catch (error) {
      this.#deadLetters.add(letter);
      throw error;
    } finally {
      this.#reviving.delete(id);
    }
    this.#enqueue(entry);
    return true;
  }

  async deleteDeadLetter(id: string): Promise<boolean> {
    const letter = this.#deadLetters.get(id);
    if (letter === undefined) return false;
    this.#deadLetters.drop(letter);
    await this.#journal?.forget(letter);
    return true;
  }

  /** All that a queue that follows this one has to take up. */
  holdings(): Holdings {
    const messages = this.#backlog.list();
    return { messages, deadLetters: this.#deadLetters.list(), keys: this.#keys.list(), cut: [...this.#cut] };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#consumer = undefined;
    this.#backlog.close();
    const journal = this.#journal;
    // What is settled from now on is delivered again by the next process, which does no harm.
    this.#journal = undefined;
    await journal?.close();
  }

  /** A message that has not been tried. @throws {QueueFull} when there is no room for it */
  #entry({ id, body }: Message, { firstAt, seq }: { firstAt: number; seq?: number }): Entry {
    if (this.#closed) throw new Error('the queue is closed');
    const bytes = heldBytes({ body, reason: null });
    this.#backlog.checkRoom(bytes);
    const order = { seq: seq ?? ++this.#seqs, turn: this.#backlog.nextTurn() };
    return { id, body, ...order, bytes, attempts: 0, crashes: 0, reason: null, dueAt: 0, firstAt };
  }

  #takeUp({ messages, deadLetters, keys, cut }: Holdings): void {
    const latest = Date.now() + LONGEST_WAIT_MS;
    for (const message of messages) {
      this.#backlog.add({ ...message, bytes: heldBytes(message), dueAt: Math.min(message.dueAt, latest) });
    }
    for (const seq of cut) this.#cut.add(seq);
    for (const letter of deadLetters) {
      for (const old of this.#deadLetters.add(letter)) void this.#journal?.forget(old).catch(() => {});
    }
    for (const record of keys) this.#keys.add(record);
    for (const { seq } of [...messages, ...deadLetters]) this.#seqs = Math.max(this.#seqs, seq);
    this.#accepted = messages.length + deadLetters.length;
  }

  #enqueue(entry: Entry): void {
    this.#onEvent({ event: 'accepted', id: entry.id });
    this.#backlog.add(entry);
    this.#handOut();
  }

  #handOut(): void {
    // A consumer may settle a delivery before it returns, which leads here again: the loop that runs goes on.
    if (this.#handingOut) return;
    this.#handingOut = true;
    try {
      while (this.#consumer !== undefined && this.#backlog.inFlight < this.#consumer.prefetch) {
        const entry = this.#backlog.shift();
        if (entry === undefined) break;
        this.#consumer.receive(this.#delivery(entry));
      }
    } finally {
      this.#handingOut = false;
    }
  }

  #delivery(entry: Entry): Delivery {
    const { id, body, seq, firstAt, attempts, crashes, suspect = false } = entry;
    const cut = this.#cut.delete(seq);
    let settled = false;
    const settle = (then: () => Promise<unknown> | undefined) => async () => {
      if (settled) return;
      settled = true;
      const written = then();
      this.#handOut();
      await written;
    };
    return {
      message: { id, body },
      seq,
      acceptedAt: firstAt,
      attempt: attempts + 1,
      crashes,
      cut,
      suspect,
      begin: async () => {
        if (settled) return;
        this.#backlog.begin(entry);
        this.#onEvent({ event: 'started', id, attempt: entry.attempts + 1 });
        await this.#journal?.update(entry, true);
      },
      ack: settle(() => this.#complete(entry)),
      nack: (verdict) => settle(() => this.#judge(entry, verdict))(),
      release: (isSuspect = suspect) =>
        settle(() => {
          if (cut) this.#cut.add(seq);
          entry.suspect = isSuspect;
          this.#backlog.putBack(entry);
          return this.#journal?.update(entry, false);
        })(),
    };
  }

  #complete(entry: Entry): Promise<void> | undefined {
    this.#completed += 1;
    this.#onEvent({ event: 'completed', id: entry.id });
    this.#backlog.remove(entry);
    return this.#journal?.complete(entry);
  }

  #judge(entry: Entry, verdict: Verdict): Promise<unknown> | undefined {
    const { reason, tried = true } = verdict;
    if (tried) entry.attempts += 1;
    entry.suspect = false;
    if (verdict.verdict === 'retry') {
      if (verdict.crashed) entry.crashes += 1;
      entry.dueAt = Date.now() + verdict.delayMs;
      this.#backlog.postpone(entry, reason);
      const { id, attempts, dueAt } = entry;
      this.#onEvent({ event: 'retrying', id, attempts, reason, dueAt });
      return this.#journal?.update(entry, false);
    }
    this.#backlog.remove(entry);
    const { id, body, seq, attempts, firstAt } = entry;
    const letter = { id, body, seq, reason, attempts, firstAt, lastAt: Date.now() };
    const dropped = this.#deadLetters.add(letter);
    this.#onEvent({ event: 'failed', id, attempts, reason });
    const journal = this.#journal;
    return journal && Promise.all([journal.bury(letter), ...dropped.map((old) => journal.forget(old))]);
  }
}
