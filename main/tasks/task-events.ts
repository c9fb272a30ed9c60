import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { PauseEvent, TaskEvent } from './queue/queue.ts';

/** Number of recent events kept for subscribers that have not read them yet. */
const WINDOW = 10_000;
/** Time for which events are kept after the last subscriber leaves, in case the subscriber reconnects. */
const RETENTION_MS = 60_000;

export type QueueEvent = TaskEvent | PauseEvent;

/** Names of the events that end a task. A failed task can still be redriven. */
const ENDS: ReadonlySet<QueueEvent['event']> = new Set(['completed', 'failed', 'cancelled']);

/** A subscriber's position in the event stream: the number of the last event it has read. */
export interface Cursor {
  seen: number;
}

/**
 * Assigns numbers to the events of tasks and pauses, and keeps the newest events, so that each subscriber can read at
 * its own pace. A subscriber that falls too far behind learns how many events it missed. A minute after the last
 * subscriber leaves, events are counted but no longer kept.
 */
export class TaskEvents {
  /** Random prefix of event ids. Distinguishes the events of this process from the events of earlier processes. */
  readonly #epoch = randomBytes(4).toString('hex');
  readonly #window: (QueueEvent | undefined)[] = [];
  readonly #subscribers = new Set<{ wake: () => void; end: () => void }>();
  /** Emits an event when a task is completed, discarded or cancelled. The event's name is the task's id. */
  readonly #ends = new EventEmitter().setMaxListeners(0);
  /** Number of the newest event, or 0 before the first event. */
  #newest = 0;
  /** Number of the newest event that is no longer kept. */
  #evicted = 0;
  #recording = false;
  #retentionTimer: NodeJS.Timeout | undefined;
  #closed = false;

  get subscribers(): number {
    return this.#subscribers.size;
  }

  /** Assigns a number to an event. While `#recording` is true, also keeps the event and wakes all subscribers. */
  readonly record = (event: QueueEvent): void => {
    this.#newest += 1;
    if (this.#recording) {
      this.#window[this.#newest % WINDOW] = event;
      this.#evicted = Math.max(this.#evicted, this.#newest - WINDOW);
      for (const { wake } of this.#subscribers) wake();
    }
    if ('id' in event && ENDS.has(event.event)) this.#ends.emit(event.id);
  };

  /** Calls `wake` after each new event, and `end` when `close` is called. @returns a function that unsubscribes */
  subscribe(wake: () => void, end: () => void): () => void {
    if (this.#closed) {
      setImmediate(end);
      return () => {};
    }
    const subscriber = { wake, end };
    clearTimeout(this.#retentionTimer);
    if (!this.#recording) {
      this.#recording = true;
      this.#evicted = this.#newest;
    }
    this.#subscribers.add(subscriber);
    return () => {
      if (!this.#subscribers.delete(subscriber) || this.#subscribers.size > 0 || this.#closed) return;
      this.#retentionTimer = setTimeout(() => {
        this.#recording = false;
        this.#window.length = 0;
        this.#evicted = this.#newest;
      }, RETENTION_MS).unref();
    };
  }

  /** Returns a cursor for a subscriber that reads only future events. */
  now(): Cursor {
    return { seen: this.#newest };
  }

  /** Returns a cursor at the event with the id `eventId`, or undefined if the event is not from this process. */
  after(eventId: string): Cursor | undefined {
    const [epoch, number = ''] = eventId.split('-');
    const seen = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
    return epoch === this.#epoch && seen <= this.#newest ? { seen } : undefined;
  }

  /** Returns the id of the last event read with a cursor. */
  idOf({ seen }: Cursor): string {
    return `${this.#epoch}-${seen}`;
  }

  /** Moves a cursor past the events that are no longer kept. @returns the number of events skipped */
  skipMissed(cursor: Cursor): number {
    const missed = Math.max(0, this.#evicted - cursor.seen);
    cursor.seen += missed;
    return missed;
  }

  /** Returns the event after the cursor and advances the cursor. Returns undefined if the cursor is at the newest event. */
  next(cursor: Cursor): QueueEvent | undefined {
    if (cursor.seen >= this.#newest) return undefined;
    cursor.seen += 1;
    return this.#window[cursor.seen % WINDOW];
  }

  /** Waits until a task is completed, discarded or cancelled, `ms` milliseconds have passed, or `cancel` or `close` is called. */
  waitForEnd(id: string, ms: number): { ended: Promise<void>; cancel: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    this.#ends.once(id, resolve);
    if (this.#closed) resolve();
    const ended = promise.finally(() => {
      clearTimeout(timer);
      this.#ends.off(id, resolve);
    });
    return { ended, cancel: resolve };
  }

  /** Ends all subscriptions and all pending `waitForEnd` calls. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retentionTimer);
    for (const id of this.#ends.eventNames()) this.#ends.emit(id);
    for (const { end } of [...this.#subscribers]) end();
  }
}
