import type { StoredMessage } from '../../../db/sqlite/queued-messages.ts';
import { Fifo } from './fifo.ts';
import { type Delivery, type Message, type Progress, type QueueBounds, type QueueCounts, QueueFull } from './queue.ts';
import { textMemoryBytes } from './text-memory.ts';

/** A message that is waiting, delayed or in flight, and its state. */
export interface Entry extends StoredMessage {
  /** Memory that the message's body and reason take, in bytes; see `textMemoryBytes`. */
  bytes: number;
}

/** The unsettled messages of a queue: waiting, delayed until their next attempt, or in flight. */
export class Backlog {
  readonly #bounds: QueueBounds;
  readonly #onDue: () => void;
  readonly #entries = new Map<string, Entry>();
  readonly #waiting = new Fifo<Entry>();
  /** Delayed messages and the timers that end their delays. A message that is delayed after `close` has no timer. */
  readonly #delayed = new Map<Entry, NodeJS.Timeout | undefined>();
  readonly #inFlight = new Map<Delivery, Entry>();
  /** Messages in flight that a worker thread has started to process. */
  readonly #running = new Set<Entry>();
  /** Number of messages that are not in `#entries` yet, because the write that accepts them is in progress. */
  #reserved = 0;
  #bytes = 0;
  /** Highest position of a message in the order of delivery so far. */
  #positions = 0;
  #closed = false;

  /** @param onDue called when a delayed message is due */
  constructor(bounds: QueueBounds, onDue: () => void) {
    this.#bounds = bounds;
    this.#onDue = onDue;
  }

  counts(): Pick<QueueCounts, 'waiting' | 'delayed' | 'inFlight' | 'bytes'> {
    const [waiting, delayed, inFlight] = [this.#waiting.size, this.#delayed.size, this.#inFlight.size];
    return { waiting, delayed, inFlight, bytes: this.#bytes };
  }

  /** Time at which the oldest message was accepted, in milliseconds since the epoch. */
  get oldest(): number | undefined {
    // The entries are in the order of acceptance, except for redriven dead letters.
    return this.#entries.values().next().value?.acceptedAt;
  }

  /** Creates the entry of a message that has had no attempt. @throws {QueueFull} if the entry would exceed a bound */
  createEntry({ id, body }: Message, sequence: number, acceptedAt: number): Entry {
    if (this.#closed) throw new Error('the queue is closed');
    const bytes = textMemoryBytes({ body, reason: null });
    const length = this.#entries.size + this.#reserved;
    if (length >= this.#bounds.maxLength) throw new QueueFull(`the queue holds ${length} messages`);
    if (this.#bytes + bytes > this.#bounds.maxBytes) throw new QueueFull(`the queue holds ${this.#bytes} bytes`);
    const state = { attempts: 0, crashes: 0, suspect: false, reason: null, dueAt: 0 };
    return { id, body, sequence, position: ++this.#positions, bytes, ...state, acceptedAt };
  }

  /** Counts a message of `bytes` bytes against the bounds while its write is in progress. Rejects if `written` rejects. */
  async reserve(bytes: number, written: Promise<void>): Promise<void> {
    this.#reserved += 1;
    this.#bytes += bytes;
    try {
      await written;
    } finally {
      this.#reserved -= 1;
      this.#bytes -= bytes;
    }
  }

  /** Adds a message, delayed if its `dueAt` is in the future. */
  add(entry: Entry): void {
    this.#entries.set(entry.id, entry);
    this.#bytes += entry.bytes;
    this.#positions = Math.max(this.#positions, entry.position);
    if (entry.dueAt > Date.now()) this.#delay(entry);
    else this.#waiting.push(entry);
  }

  /** Takes up to `max` waiting messages. Each is in flight until `endDelivery` is called. Takes none after `close`. */
  take(max: number): Delivery[] {
    return Array.from({ length: this.#closed ? 0 : Math.min(max, this.#waiting.size) }, () => {
      const entry = this.#waiting.shift() as Entry;
      const { id, body, sequence, acceptedAt, attempts, crashes, suspect } = entry;
      const delivery = { message: { id, body }, sequence, acceptedAt, attempt: attempts + 1, crashes, suspect };
      this.#inFlight.set(delivery, entry);
      return delivery;
    });
  }

  /** Returns the message of a delivery, or undefined if the delivery has ended. */
  entryOf(delivery: Delivery): Entry | undefined {
    return this.#inFlight.get(delivery);
  }

  markRunning(entry: Entry): void {
    this.#running.add(entry);
  }

  /** Ends a delivery, so that its message is no longer in flight. @returns the message, or undefined if the delivery had ended */
  endDelivery(delivery: Delivery): Entry | undefined {
    const entry = this.#inFlight.get(delivery);
    if (entry === undefined) return undefined;
    this.#inFlight.delete(delivery);
    this.#running.delete(entry);
    return entry;
  }

  /** Removes a message, whose delivery must have ended. */
  remove(entry: Entry): void {
    this.#entries.delete(entry.id);
    this.#bytes -= entry.bytes;
  }

  /** Inserts a message, whose delivery must have ended, into the waiting messages at its original position. */
  putBack(entry: Entry): void {
    this.#waiting.putBack(entry, ({ position }) => position < entry.position);
  }

  /** Delays a message, whose delivery must have ended, until the time `dueAt`. `reason` tells why the last attempt failed. */
  postpone(entry: Entry, dueAt: number, reason: string): void {
    this.#bytes -= entry.bytes;
    entry.reason = reason;
    entry.bytes = textMemoryBytes(entry);
    this.#bytes += entry.bytes;
    entry.dueAt = dueAt;
    this.#delay(entry);
  }

  find(id: string): Progress | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    const { attempts, reason, dueAt } = entry;
    if (this.#running.has(entry)) return { state: 'running', attempt: attempts + 1 };
    if (this.#delayed.has(entry)) return { state: 'retrying', attempts, reason: reason ?? '', dueAt };
    return { state: 'queued' };
  }

  /** Returns all messages, in the order of delivery. */
  list(): Entry[] {
    return [...this.#entries.values()].sort((one, other) => one.position - other.position);
  }

  /** Stops the timers of the delayed messages, which stay delayed and are still listed. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#delayed.values()) clearTimeout(timer);
  }

  #delay(entry: Entry): void {
    const ready = () => {
      this.#delayed.delete(entry);
      entry.dueAt = 0;
      entry.position = ++this.#positions;
      this.#waiting.push(entry);
      this.#onDue();
    };
    this.#delayed.set(entry, this.#closed ? undefined : setTimeout(ready, Math.max(0, entry.dueAt - Date.now())));
  }
}
