import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { PauseEvent, TaskEvent } from './queue/queue.ts';

const MAX_KEPT_EVENTS = 10_000;
/** Time for which events are kept after the last subscriber disconnects, so that a subscriber can resume. */
const RETENTION_MS = 60_000;

export type QueueEvent = TaskEvent | PauseEvent;

const END_EVENTS: ReadonlySet<QueueEvent['event']> = new Set(['completed', 'failed', 'cancelled']);

/** A subscriber's position in the event stream: the number of the last event that the subscriber has read. */
export interface Cursor {
  seen: number;
}

/** Numbers the events of all tasks, and keeps the newest events so that each subscriber can read at its own pace. */
export class TaskEvents {
  /** Random prefix of event ids, so that event ids from earlier processes are recognized. */
  readonly #epoch = randomBytes(4).toString('hex');
  readonly #window: (QueueEvent | undefined)[] = [];
  readonly #subscribers = new Set<{ wake: () => void; end: () => void }>();
  readonly #ends = new EventEmitter().setMaxListeners(0);
  #newestNumber = 0;
  #newestEvicted = 0;
  #recording = false;
  #retentionTimer: NodeJS.Timeout | undefined;
  #closed = false;

  get subscribers(): number {
    return this.#subscribers.size;
  }

  readonly record = (event: QueueEvent): void => {
    this.#newestNumber += 1;
    if (this.#recording) {
      this.#window[this.#newestNumber % MAX_KEPT_EVENTS] = event;
      this.#newestEvicted = Math.max(this.#newestEvicted, this.#newestNumber - MAX_KEPT_EVENTS);
      for (const { wake } of this.#subscribers) wake();
    }
    if ('id' in event && END_EVENTS.has(event.event)) this.#ends.emit(event.id);
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
      this.#newestEvicted = this.#newestNumber;
    }
    this.#subscribers.add(subscriber);
    return () => {
      if (!this.#subscribers.delete(subscriber) || this.#subscribers.size > 0 || this.#closed) return;
      this.#retentionTimer = setTimeout(() => {
        this.#recording = false;
        this.#window.length = 0;
        this.#newestEvicted = this.#newestNumber;
      }, RETENTION_MS).unref();
    };
  }

  now(): Cursor {
    return { seen: this.#newestNumber };
  }

  /** Returns a cursor at the event with this id, or undefined if the id was created by another process. */
  after(eventId: string): Cursor | undefined {
    const [epoch, number = ''] = eventId.split('-');
    const seen = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
    return epoch === this.#epoch && seen <= this.#newestNumber ? { seen } : undefined;
  }

  idOf({ seen }: Cursor): string {
    return `${this.#epoch}-${seen}`;
  }

  /** Moves a cursor past the events that are no longer kept. @returns the number of events skipped */
  skipMissed(cursor: Cursor): number {
    const missed = Math.max(0, this.#newestEvicted - cursor.seen);
    cursor.seen += missed;
    return missed;
  }

  /** Advances the cursor and returns the event there, or undefined if the subscriber has read all events. */
  next(cursor: Cursor): QueueEvent | undefined {
    if (cursor.seen >= this.#newestNumber) return undefined;
    cursor.seen += 1;
    return this.#window[cursor.seen % MAX_KEPT_EVENTS];
  }

  /** `ended` resolves when the task completes, fails or is cancelled, after `ms` milliseconds, or on `cancel`. */
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

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retentionTimer);
    for (const id of this.#ends.eventNames()) this.#ends.emit(id);
    for (const { end } of [...this.#subscribers]) end();
  }
}
