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

export interface MemoryQueueBounds {
  /** Messages that are waiting, delayed or in flight. */
  maxLength: number;
  /** Bytes of these. */
  maxBytes: number;
}

interface Entry {
  message: Message;
  /** Its place in the order of waiting; a retry gets a new one. */
  turn: number;
  bytes: number;
  attempts: number;
  crashes: number;
  firstAt: number;
}

/** The in-memory driver of the specification: what it holds is gone when the process ends. */
export class MemoryQueue implements QueueDriver {
  readonly #bounds: MemoryQueueBounds;
  readonly #deadLetters: DeadLetters;
  readonly #waiting = new Fifo<Entry>();
  /** Retries that wait for their time. They hold no place in the prefetch window. */
  readonly #delayed = new Map<Entry, NodeJS.Timeout | undefined>();
  #turns = 0;
  #inFlight = 0;
  #bytes = 0;
  #accepted = 0;
  #completed = 0;
  #consumer: { prefetch: number; receive: (delivery: Delivery) => void } | undefined;
  #handingOut = false;
  #closed = false;

  constructor(bounds: MemoryQueueBounds, deadLetters = new DeadLetters()) {
    this.#bounds = bounds;
    this.#deadLetters = deadLetters;
  }

  async publish(message: Message): Promise<void> {
    if (this.#closed) throw new Error('the queue is closed');
    const bytes = Buffer.byteLength(message.body);
    const length = this.#waiting.size + this.#delayed.size + this.#inFlight;
    if (length >= this.#bounds.maxLength) throw new QueueFull(`the queue holds ${length} messages`);
    if (this.#bytes + bytes > this.#bounds.maxBytes) throw new QueueFull(`the queue holds ${this.#bytes} bytes`);
    this.#bytes += bytes;
    this.#accepted += 1;
    this.#waiting.push({ message, turn: ++this.#turns, bytes, attempts: 0, crashes: 0, firstAt: Date.now() });
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
    const settle = (then: () => void) => async () => {
      if (settled) return;
      settled = true;
      this.#inFlight -= 1;
      then();
      this.#handOut();
    };
    return {
      message: entry.message,
      attempt: entry.attempts + 1,
      crashes: entry.crashes,
      ack: settle(() => this.#complete(entry)),
      nack: (verdict) => settle(() => this.#judge(entry, verdict))(),
      release: settle(() => this.#waiting.putBack(entry, ({ turn }) => turn < entry.turn)),
    };
  }

  #complete(entry: Entry): void {
    this.#completed += 1;
    this.#bytes -= entry.bytes;
  }

  #judge(entry: Entry, verdict: Verdict): void {
    entry.attempts += 1;
    if (verdict.verdict === 'retry') {
      if (verdict.crashed) entry.crashes += 1;
      const timer = this.#closed ? undefined : setTimeout(() => this.#retry(entry), verdict.delayMs);
      this.#delayed.set(entry, timer);
    } else {
      this.#bytes -= entry.bytes;
      const { message, attempts, firstAt } = entry;
      this.#deadLetters.add({ message, reason: verdict.reason, attempts, firstAt, lastAt: Date.now() });
    }
  }

  #retry(entry: Entry): void {
    this.#delayed.delete(entry);
    entry.turn = ++this.#turns;
    this.#waiting.push(entry);
    this.#handOut();
  }
}
