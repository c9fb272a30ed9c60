import { type Progress, QueueFull } from './driver.ts';
import { Fifo } from './fifo.ts';
import { heldBytes } from './held-bytes.ts';
import type { Entry } from './journal.ts';

export interface BacklogBounds {
  /** Messages that are waiting, delayed or in flight. */
  maxLength: number;
  /** Bytes of memory for their texts. */
  maxBytes: number;
}

/** The messages that have not come to their end: waiting, delayed until their next attempt, or in flight. */
export class Backlog {
  readonly #bounds: BacklogBounds;
  readonly #onReady: () => void;
  readonly #entries = new Map<string, Entry>();
  readonly #waiting = new Fifo<Entry>();
  /** Retries that wait for their time. They hold no place in the prefetch window. */
  readonly #delayed = new Map<Entry, NodeJS.Timeout | undefined>();
  /** Of those in flight, the ones that an attempt has begun at. */
  readonly #running = new Set<Entry>();
  #inFlight = 0;
  #reserved = 0;
  #bytes = 0;
  #turns = 0;
  #closed = false;

  /** @param onReady told when a retry has waited long enough */
  constructor(bounds: BacklogBounds, onReady: () => void) {
    this.#bounds = bounds;
    this.#onReady = onReady;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get delayed(): number {
    return this.#delayed.size;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** When the oldest of them was accepted. */
  get oldest(): number | undefined {
    // They are in here in the order in which they came, but for dead letters that were put back.
    return this.#entries.values().next().value?.firstAt;
  }

  /** The next place in the order of waiting. */
  nextTurn(): number {
    return ++this.#turns;
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
    this.#turns = Math.max(this.#turns, entry.turn);
    if (entry.dueAt > Date.now()) this.#wait(entry);
    else this.#waiting.push(entry);
  }

  /** The message whose turn it is; it is in flight from now on. */
  shift(): Entry | undefined {
    const entry = this.#waiting.shift();
    if (entry !== undefined) this.#inFlight += 1;
    return entry;
  }

  /** Notes that an attempt at a message in flight has begun. */
  begin(entry: Entry): void {
    this.#running.add(entry);
  }

  /** A message in flight is at its end. */
  remove(entry: Entry): void {
    this.#land(entry);
    this.#entries.delete(entry.id);
    this.#bytes -= entry.bytes;
  }

  /** A message in flight goes back to where it was. */
  putBack(entry: Entry): void {
    this.#land(entry);
    this.#waiting.putBack(entry, ({ turn }) => turn < entry.turn);
  }

  /** A message in flight has failed for `reason`. It waits for `entry.dueAt`, and then for its turn. */
  postpone(entry: Entry, reason: string): void {
    this.#land(entry);
    this.#bytes -= entry.bytes;
    entry.reason = reason;
    entry.bytes = heldBytes(entry);
    this.#bytes += entry.bytes;
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
    return [...this.#entries.values()].sort((one, other) => one.turn - other.turn);
  }

  /** No retry becomes ready from now on. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#delayed.values()) clearTimeout(timer);
  }

  #land(entry: Entry): void {
    this.#inFlight -= 1;
    this.#running.delete(entry);
  }

  #wait(entry: Entry): void {
    const ready = () => {
      this.#delayed.delete(entry);
      entry.dueAt = 0;
      entry.turn = this.nextTurn();
      this.#waiting.push(entry);
      this.#onReady();
    };
    this.#delayed.set(entry, this.#closed ? undefined : setTimeout(ready, Math.max(0, entry.dueAt - Date.now())));
  }
}
