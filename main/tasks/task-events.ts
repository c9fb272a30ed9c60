import { randomBytes } from 'node:crypto';
import type { TaskEvent } from './queue/queue.ts';

/** Number of the newest events that are kept for subscribers that have not read them yet. */
const WINDOW = 10_000;
/** Time for which events are kept after the last subscriber has left, so that it misses no event if it reconnects. */
const RETENTION_MS = 60_000;

/** Position of a subscriber in the events: the number of the last event that it has read. */
export interface Cursor {
  seen: number;
}

/**
 * Numbered task events, of which the newest are kept, so that each subscriber can read them at its own pace. A subscriber that falls
 * further behind learns how many events it has missed. Without subscribers, events are only counted.
 */
export class TaskEvents {
  /** Random prefix of event ids, which distinguishes the events of this process from those of an earlier one. */
  readonly #epoch = randomBytes(4).toString('hex');
  readonly #window: (TaskEvent | undefined)[] = [];
  readonly #subscribers = new Set<{ wake: () => void; end: () => void }>();
  /** For each task id, the functions that resolve the promises of `ended` for requests that wait for the task to finish. */
  readonly #waiters = new Map<string, Set<() => void>>();
  /** Number of the newest event. 0 before the first. */
  #newest = 0;
  /** Number of the newest event that is no longer kept. */
  #evicted = 0;
  #recording = false;
  #retentionTimer: NodeJS.Timeout | undefined;
  #closed = false;

  get subscribers(): number {
    return this.#subscribers.size;
  }

  /** Adds an event. Without subscribers, the event is only counted. */
  readonly record = (event: TaskEvent): void => {
    this.#newest += 1;
    if (this.#recording) {
      this.#window[this.#newest % WINDOW] = event;
      this.#evicted = Math.max(this.#evicted, this.#newest - WINDOW);
      for (const { wake } of this.#subscribers) wake();
    }
    if (this.#waiters.size > 0 && (event.event === 'completed' || event.event === 'failed'))
      this.#resolveWaiters(event.id);
  };

  /** Calls `wake` at each new event, and `end` when no further event will follow, until the returned function is called. */
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

  /** Returns the cursor of a subscriber that reads future events only. */
  now(): Cursor {
    return { seen: this.#newest };
  }

  /** Returns a cursor at the event with the id `eventId`, or undefined if the event is not one of this process. */
  after(eventId: string): Cursor | undefined {
    const [epoch, number = ''] = eventId.split('-');
    const seen = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
    return epoch === this.#epoch && seen <= this.#newest ? { seen } : undefined;
  }

  /** Returns the id of the last event that was read with a cursor. */
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
  next(cursor: Cursor): TaskEvent | undefined {
    if (cursor.seen >= this.#newest) return undefined;
    cursor.seen += 1;
    return this.#window[cursor.seen % WINDOW];
  }

  /** Resolves when the task is completed or discarded, after `ms` milliseconds, when `signal` aborts, or on `close`. */
  async ended(id: string, ms: number, signal: AbortSignal): Promise<void> {
    if (this.#closed || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiters = this.#waiters.get(id) ?? new Set();
    this.#waiters.set(id, waiters.add(resolve));
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    clearTimeout(timer);
    waiters.delete(resolve);
    if (waiters.size === 0 && this.#waiters.get(id) === waiters) this.#waiters.delete(id);
  }

  /** Ends all subscriptions, and resolves all promises of `ended`. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retentionTimer);
    for (const id of [...this.#waiters.keys()]) this.#resolveWaiters(id);
    for (const { end } of [...this.#subscribers]) end();
  }

  #resolveWaiters(id: string): void {
    for (const resolve of this.#waiters.get(id) ?? []) resolve();
  }
}
