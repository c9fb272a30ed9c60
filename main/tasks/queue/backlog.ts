import { sharedReason } from '../../../db/attempt-history.ts';
import type { StoredMessage } from '../../../db/sqlite/queued-messages.ts';
import { actionStart } from '../../../workers/parse-submission.ts';
import { Fifo } from './fifo.ts';
import { lowest } from './lowest.ts';
import {
  type Delivery,
  type ListedState,
  type Message,
  type Progress,
  type QueueBounds,
  type QueueCounts,
  QueueFull,
  type TaskProgress,
  type UnfinishedState,
} from './queue.ts';
import { textMemoryBytes } from './text-memory.ts';

/** A message that is waiting, delayed or in flight, and its state. */
export interface Entry extends StoredMessage {
  /** Memory used by the message's body, failure reason and attempt history, in bytes. */
  bytes: number;
  /** First characters of the action's name. Undefined if the message has no action. */
  action: string | undefined;
}

interface RunningState {
  /** Start of the attempt in milliseconds since the epoch. */
  startedAt: number;
  progress?: TaskProgress;
}

/** An entry without the fields that `entryOf` computes from the message. */
export type EntryState = Omit<Entry, 'bytes' | 'action'>;

export function entryOf(message: EntryState): Entry {
  return { ...message, bytes: textMemoryBytes(message), action: actionStart(message.body) };
}

/** The unsettled messages of a queue: waiting, delayed until their next attempt, or in flight. */
export class Backlog {
  readonly #bounds: QueueBounds;
  readonly #onDue: () => void;
  readonly #entries = new Map<string, Entry>();
  readonly #waiting = new Fifo<Entry>();
  /** Timers of delayed messages. A message delayed after `close` has no timer. */
  readonly #delayed = new Map<Entry, NodeJS.Timeout | undefined>();
  readonly #inFlight = new Map<Delivery, Entry>();
  readonly #running = new Map<Entry, RunningState>();
  /** Messages whose cancellation is being stored. Not delivered, but counted as waiting. */
  readonly #removing = new Set<Entry>();
  #reservedCount = 0;
  #bytes = 0;
  #lastPosition = 0;
  #closed = false;

  constructor(bounds: QueueBounds, onDue: () => void) {
    this.#bounds = bounds;
    this.#onDue = onDue;
  }

  counts(): Pick<QueueCounts, 'waiting' | 'delayed' | 'inFlight' | 'bytes'> {
    const waiting = this.#waiting.size + this.#removing.size;
    return { waiting, delayed: this.#delayed.size, inFlight: this.#inFlight.size, bytes: this.#bytes };
  }

  /** Acceptance time of the oldest message, in milliseconds since the epoch. */
  get oldest(): number | undefined {
    // The first entry is the oldest, except that a redriven dead letter is added last but keeps its acceptance time.
    return this.#entries.values().next().value?.acceptedAt;
  }

  /** Creates an entry but does not add it. @throws {QueueFull} if the entry would exceed a bound of the queue */
  createEntry({ id, body }: Message, sequence: number, acceptedAt: number): Entry {
    if (this.#closed) throw new Error('the queue is closed');
    const bytes = textMemoryBytes({ body, reason: null });
    const length = this.#entries.size + this.#reservedCount;
    if (length >= this.#bounds.maxLength) throw new QueueFull(`the queue holds ${length} messages`);
    if (this.#bytes + bytes > this.#bounds.maxBytes) throw new QueueFull(`the queue holds ${this.#bytes} bytes`);
    const state = { attempts: 0, crashes: 0, suspect: false, reason: null, history: [], dueAt: 0 };
    const position = ++this.#lastPosition;
    return { id, body, sequence, position, bytes, action: actionStart(body), ...state, acceptedAt };
  }

  /** Reserves space for a message that is about to be added, so that the message counts against the queue's bounds. */
  reserve({ bytes }: Entry): void {
    this.#reservedCount += 1;
    this.#bytes += bytes;
  }

  unreserve({ bytes }: Entry): void {
    this.#reservedCount -= 1;
    this.#bytes -= bytes;
  }

  add(entry: Entry): void {
    this.#entries.set(entry.id, entry);
    this.#bytes += entry.bytes;
    this.#lastPosition = Math.max(this.#lastPosition, entry.position);
    if (entry.dueAt > Date.now()) this.#delay(entry);
    else this.#waiting.push(entry);
  }

  /** Takes up to `max` waiting messages, which are in flight until `endDelivery`. Returns none after `close`. */
  take(max: number): Delivery[] {
    return Array.from({ length: this.#closed ? 0 : Math.min(max, this.#waiting.size) }, () => {
      const entry = this.#waiting.shift() as Entry;
      const { id, body, sequence, acceptedAt, attempts, crashes, suspect } = entry;
      const delivery = { message: { id, body }, sequence, acceptedAt, attempt: attempts + 1, crashes, suspect };
      this.#inFlight.set(delivery, entry);
      return delivery;
    });
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  deliveryOf(entry: Entry): Delivery | undefined {
    for (const [delivery, other] of this.#inFlight) if (other === entry) return delivery;
    return undefined;
  }

  /** Returns the message of a delivery, or undefined if the delivery has ended. */
  entryOf(delivery: Delivery): Entry | undefined {
    return this.#inFlight.get(delivery);
  }

  markRunning(delivery: Delivery): Entry | undefined {
    const entry = this.#inFlight.get(delivery);
    if (entry !== undefined && !this.#running.has(entry)) this.#running.set(entry, { startedAt: Date.now() });
    return entry;
  }

  /** Returns the delivery's message, or undefined if the delivery is not running. */
  setProgress(delivery: Delivery, progress: TaskProgress): Entry | undefined {
    const entry = this.#inFlight.get(delivery);
    const running = entry && this.#running.get(entry);
    if (running === undefined) return undefined;
    running.progress = progress;
    return entry;
  }

  /** Returns the delivery's message, which is no longer in flight, or undefined if the delivery had already ended. */
  endDelivery(delivery: Delivery): Entry | undefined {
    const entry = this.#inFlight.get(delivery);
    this.#inFlight.delete(delivery);
    if (entry !== undefined) this.#running.delete(entry);
    return entry;
  }

  /** Removes a message. Its delivery must have ended. */
  remove(entry: Entry): void {
    this.#entries.delete(entry.id);
    this.#bytes -= entry.bytes;
  }

  /** Prevents the delivery of a message that is not in flight, until `undoRemoval` or `finishRemoval`. */
  startRemoval(entry: Entry): void {
    clearTimeout(this.#delayed.get(entry));
    if (!this.#delayed.delete(entry)) this.#waiting.delete(entry);
    this.#removing.add(entry);
  }

  undoRemoval(entry: Entry): void {
    this.#removing.delete(entry);
    if (entry.dueAt > 0) this.#delay(entry);
    else this.putBack(entry);
  }

  finishRemoval(entry: Entry): void {
    this.#removing.delete(entry);
    this.remove(entry);
  }

  /** Moves a message back to its original position among the waiting messages. Its delivery must have ended. */
  putBack(entry: Entry): void {
    this.#waiting.putBack(entry, ({ position }) => position < entry.position);
  }

  /** Delays a message until `dueAt`, in milliseconds since the epoch. Its delivery must have ended. */
  postpone(entry: Entry, dueAt: number, reason: string): void {
    this.#bytes -= entry.bytes;
    entry.reason = sharedReason(entry.history, reason);
    entry.bytes = textMemoryBytes(entry);
    this.#bytes += entry.bytes;
    entry.dueAt = dueAt;
    this.#delay(entry);
  }

  find(id: string): Progress | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    const { body, acceptedAt, history } = entry;
    return { ...this.stateOf(entry), body, acceptedAt, history };
  }

  stateOf(entry: Entry): UnfinishedState {
    const { attempts, reason, dueAt } = entry;
    const running = this.#running.get(entry);
    if (running !== undefined) return { state: 'running', attempt: attempts + 1, ...running };
    if (this.#delayed.has(entry)) return { state: 'retrying', attempts, reason: reason ?? '', dueAt };
    return { state: 'queued' };
  }

  /** Returns the first `max` messages in a state: the next to deliver, the longest running, or the next due. */
  first(state: ListedState, max: number): Entry[] {
    switch (state) {
      case 'queued':
        return this.#waiting.first(max);
      case 'running':
        return lowest(this.#inFlight.values(), max, (entry) => this.#running.get(entry)?.startedAt ?? Number.MAX_VALUE);
      case 'retrying':
        return lowest(this.#delayed.keys(), max, ({ dueAt }) => dueAt);
    }
  }

  list(): Entry[] {
    return [...this.#entries.values()].sort((one, other) => one.position - other.position);
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#delayed.values()) clearTimeout(timer);
  }

  #delay(entry: Entry): void {
    const ready = () => {
      this.#delayed.delete(entry);
      entry.dueAt = 0;
      entry.position = ++this.#lastPosition;
      this.#waiting.push(entry);
      this.#onDue();
    };
    this.#delayed.set(entry, this.#closed ? undefined : setTimeout(ready, Math.max(0, entry.dueAt - Date.now())));
  }
}
