import { DeadLetters } from './dead-letters.ts';
import {
  type Consumer,
  type DeadLetter,
  type Delivery,
  type Message,
  type QueueCounts,
  type QueueDriver,
  QueueFull,
  type Verdict,
} from './driver.ts';
import { Fifo } from './fifo.ts';
import type { Entry, Journal, Recovered } from './journal.ts';

export interface QueueBounds {
  /** Messages that are waiting, delayed or in flight. */
  maxLength: number;
  /** Bytes of these. */
  maxBytes: number;
}

/** What makes a queue outlive its process. */
export interface Durability {
  journal: Journal;
  /** What the journal held when it was opened. */
  recovered: Recovered;
}

/**
 * The in-memory driver of the specification: what it holds is gone when the process ends. Given a journal, it holds
 * the same in memory and takes it up again from there.
 */
export class MemoryQueue implements QueueDriver {
  readonly durable: boolean;
  readonly #bounds: QueueBounds;
  readonly #deadLetters: DeadLetters;
  #journal: Journal | undefined;
  readonly #waiting = new Fifo<Entry>();
  /** Retries that wait for their time. They hold no place in the prefetch window. */
  readonly #delayed = new Map<Entry, NodeJS.Timeout | undefined>();
  /** Messages that the journal is writing down; they count against the bounds. */
  #accepting = 0;
  /** Begins where no earlier process can have come to: microseconds since the epoch. */
  #seqs = Date.now() * 1000;
  #turns = 0;
  #inFlight = 0;
  #bytes = 0;
  #accepted = 0;
  #completed = 0;
  #consumer: { prefetch: number; receive: (delivery: Delivery) => void } | undefined;
  #handingOut = false;
  #closed = false;

  constructor(bounds: QueueBounds, deadLetters = new DeadLetters(), durable?: Durability) {
    this.#bounds = bounds;
    this.#deadLetters = deadLetters;
    this.durable = durable !== undefined;
    this.#journal = durable?.journal;
    if (durable !== undefined) this.#takeUp(durable.recovered);
  }

  async publish(message: Message): Promise<void> {
    if (this.#closed) throw new Error('the queue is closed');
    const bytes = Buffer.byteLength(message.body);
    const length = this.#waiting.size + this.#delayed.size + this.#inFlight + this.#accepting;
    if (length >= this.#bounds.maxLength) throw new QueueFull(`the queue holds ${length} messages`);
    if (this.#bytes + bytes > this.#bounds.maxBytes) throw new QueueFull(`the queue holds ${this.#bytes} bytes`);
    const order = { seq: ++this.#seqs, turn: ++this.#turns };
    const entry = { message, ...order, bytes, attempts: 0, crashes: 0, firstAt: Date.now() };
    this.#bytes += bytes;
    if (this.#journal !== undefined) await this.#writeDown(entry, this.#journal);
    this.#accepted += 1;
    this.#waiting.push(entry);
    this.#handOut();
  }

  consume(prefetch: number, receive: (delivery: Delivery) => void): Consumer {
    if (this.#closed) throw new Error('the queue is closed');
    if (this.#consumer !== undefined) throw new Error('the queue has a consumer already');
    const consumer = { prefetch, receive };
    this.#consumer = consumer;
    this.#handOut();
    return {
      stop: () => {
        if (this.#consumer === consumer) this.#consumer = undefined;
      },
    };
  }

  counts(): QueueCounts {
    return {
      accepted: this.#accepted,
      completed: this.#completed,
      dead: this.#deadLetters.size,
      dropped: this.#deadLetters.dropped,
      waiting: this.#waiting.size,
      delayed: this.#delayed.size,
      inFlight: this.#inFlight,
      bytes: this.#bytes,
    };
  }

  deadLetters(): readonly DeadLetter[] {
    return this.#deadLetters.list();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#consumer = undefined;
    for (const timer of this.#delayed.values()) clearTimeout(timer);
    const journal = this.#journal;
    // What is settled from now on is delivered again by the next process, which does no harm.
    this.#journal = undefined;
    await journal?.close();
  }

  async #writeDown(entry: Entry, journal: Journal): Promise<void> {
    this.#accepting += 1;
    try {
      await journal.accept(entry);
    } catch (error) {
      this.#bytes -= entry.bytes;
      throw error;
    } finally {
      this.#accepting -= 1;
    }
  }

  #takeUp({ entries, deadLetters }: Recovered): void {
    const now = Date.now();
    for (const { dueAt, ...entry } of entries) {
      this.#bytes += entry.bytes;
      this.#turns = Math.max(this.#turns, entry.turn);
      if (dueAt > now) this.#postpone(entry, dueAt - now);
      else this.#waiting.push(entry);
    }
    for (const letter of deadLetters) this.#deadLetters.add(letter);
    for (const { seq } of [...entries, ...deadLetters]) this.#seqs = Math.max(this.#seqs, seq);
    this.#accepted = entries.length + deadLetters.length;
  }

  #handOut(): void {
    // A consumer may settle a delivery before it returns, which leads here again: the loop that runs goes on.
    if (this.#handingOut) return;
    this.#handingOut = true;
    try {
      while (this.#consumer !== undefined && this.#inFlight < this.#consumer.prefetch) {
        const entry = this.#waiting.shift();
        if (entry === undefined) break;
        this.#inFlight += 1;
        this.#consumer.receive(this.#delivery(entry));
      }
    } finally {
      this.#handingOut = false;
    }
  }

  #delivery(entry: Entry): Delivery {
    let settled = false;
    const settle = (then: () => Promise<void> | undefined) => async () => {
      if (settled) return;
      settled = true;
      this.#inFlight -= 1;
      const written = then();
      this.#handOut();
      await written;
    };
    return {
      message: entry.message,
      seq: entry.seq,
      attempt: entry.attempts + 1,
      crashes: entry.crashes,
      begin: async () => this.#journal?.begin(entry),
      ack: settle(() => this.#complete(entry)),
      nack: (verdict) => settle(() => this.#judge(entry, verdict))(),
      release: settle(() => this.#putBack(entry)),
    };
  }

  #complete(entry: Entry): Promise<void> | undefined {
    this.#completed += 1;
    this.#bytes -= entry.bytes;
    return this.#journal?.complete(entry);
  }

  #putBack(entry: Entry): Promise<void> | undefined {
    this.#waiting.putBack(entry, ({ turn }) => turn < entry.turn);
    return this.#journal?.release(entry);
  }

  #judge(entry: Entry, verdict: Verdict): Promise<void> | undefined {
    entry.attempts += 1;
    if (verdict.verdict === 'retry') {
      if (verdict.crashed) entry.crashes += 1;
      this.#postpone(entry, verdict.delayMs);
      return this.#journal?.postpone(entry, Date.now() + verdict.delayMs);
    }
    this.#bytes -= entry.bytes;
    const { message, seq, attempts, firstAt } = entry;
    const letter = { message, seq, reason: verdict.reason, attempts, firstAt, lastAt: Date.now() };
    const dropped = this.#deadLetters.add(letter);
    return this.#journal?.bury(entry, letter, dropped);
  }

  #postpone(entry: Entry, delayMs: number): void {
    const timer = this.#closed ? undefined : setTimeout(() => this.#retry(entry), delayMs);
    this.#delayed.set(entry, timer);
  }

  #retry(entry: Entry): void {
    this.#delayed.delete(entry);
    entry.turn = ++this.#turns;
    this.#waiting.push(entry);
    this.#handOut();
  }
}
