import { Fifo } from './fifo.ts';
import { heldBytes } from './held-bytes.ts';
import type { Entry } from './journal.ts';
import { type Delivery, type Progress, QueueFull } from './queue.ts';

export interface BacklogBounds {
  /** Messages that are waiting, delayed or in flight. */
  maxLength: number;
  /** Bytes of memory for their texts. */
  maxBytes: number;
}

/** The messages that have not come to their end: waiting, delayed until their next attempt, or in flight. */
export class Backlog {
  readonly #bounds: BacklogBounds;
  readonly #onDue: () => void;
  readonly #entries = new Map<string, Entry>();
  readonly #waiting = new Fifo<Entry>();
  /** Retries that wait for their time. They hold no place in the prefetch window. */
  readonly #delayed = new Map<Entry, NodeJS.Timeout | undefined>();
  readonly #inFlight = new Map<Delivery, Entry>();
  /** Messages in flight that a worker has started. */
  readonly #running = new Set<Entry>();
  #reserved = 0;
  #bytes = 0;
  #positions = 0;
  #closed = false;

  /** @param onDue called when a delayed message is due */
  constructor(bounds: BacklogBounds, onDue: () => void) {
    this.#bounds = bounds;
    this.#onDue = onDue;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get delayed(): number {
    return this.#delayed.size;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** When the oldest of them was accepted. */
  get oldest(): number | undefined {
    // They are in here in the order in which they came, but for dead letters that were put back.
    return this.#entries.values().next().value?.acceptedAt;
  }

  /** The next place in the order of waiting. */
  nextPosition(): number {
    return ++this.#positions;
  }

  /** @throws {QueueFull} when there is no room for one more message of so many bytes */
  checkRoom(bytes: number): void {
    const length = this.#entries.size + this.#reserved;
    if (length >= this.#bounds.maxLength) throw new QueueFull(`the queue holds ${length} messages`);
    if (this.#bytes + bytes > this.#bounds.maxBytes) throw new QueueFull(`the queue holds ${this.#bytes} bytes`);
  }

  /** Keeps room for a message until it is known whether it comes. */
  async reserve(bytes: number, known: Promise<void>): Promise<void> {
    this.#reserved += 1;
    this.#bytes += bytes;
    try {
      await known;
    } finally {
      this.#reserved -= 1;
      this.#bytes -= bytes;
    }
  }

  /** Takes a message in, which waits for its turn, and for its time if that has not come. */
  add(entry: Entry): void {
    this.#entries.set(entry.id, entry);
    this.#bytes += entry.bytes;
    this.#positions = Math.max(this.#positions, entry.position);
    if (entry.dueAt > Date.now()) this.#wait(entry);
    else this.#waiting.push(entry);
  }

  /** Takes the next message, which is in flight until `land`. */
  take(): Delivery | undefined {
    const entry = this.#waiting.shift();
    if (entry === undefined) return undefined;
    const { id, body, sequence, acceptedAt, attempts, crashes, suspect } = entry;
    const delivery = { message: { id, body }, sequence, acceptedAt, attempt: attempts + 1, crashes, suspect };
    this.#inFlight.set(delivery, entry);
    return delivery;
  }

  /** The message of a delivery in flight. */
  entryOf(delivery: Delivery): Entry | undefined {
    return this.#inFlight.get(delivery);
  }

  markRunning(entry: Entry): void {
    this.#running.add(entry);
  }

  /** Ends a delivery: its message is not in flight any more. @returns the message; undefined if the delivery has ended before */
  land(delivery: Delivery): Entry | undefined {
    const entry = this.#inFlight.get(delivery);
    if (entry === undefined) return undefined;
    this.#inFlight.delete(delivery);
    this.#running.delete(entry);
    return entry;
  }

  /** Removes a message that has landed. */
  remove(entry: Entry): void {
    this.#entries.delete(entry.id);
    this.#bytes -= entry.bytes;
  }

  /** Puts a message that has landed back to its position. */
  putBack(entry: Entry): void {
    this.#waiting.putBack(entry, ({ position }) => position < entry.position);
  }

  /** Delays a message that has landed until `dueAt`, because of `reason`. */
  postpone(entry: Entry, dueAt: number, reason: string): void {
    this.#bytes -= entry.bytes;
    entry.reason = reason;
    entry.bytes = heldBytes(entry);
    this.#bytes += entry.bytes;
    entry.dueAt = dueAt;
    this.#wait(entry);
  }

  find(id: string): Progress | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    const { attempts, reason, dueAt } = entry;
    if (this.#running.has(entry)) return { state: 'running', attempt: attempts + 1 };
    if (this.#delayed.has(entry)) return { state: 'retrying', attempts, reason: reason ?? '', dueAt };
    return { state: 'queued' };
  }

  /** Everything, in the order of waiting. */
  list(): Entry[] {
    return [...this.#entries.values()].sort((one, other) => one.position - other.position);
  }

  /** No retry becomes ready from now on. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#delayed.values()) clearTimeout(timer);
  }

  #wait(entry: Entry): void {
    const ready = () => {
      this.#delayed.delete(entry);
      entry.dueAt = 0;
      entry.position = this.nextPosition();
      this.#waiting.push(entry);
      this.#onDue();
    };
    this.#delayed.set(entry, this.#closed ? undefined : setTimeout(ready, Math.max(0, entry.dueAt - Date.now())));
  }
}
