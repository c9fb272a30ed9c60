import { randomBytes } from 'node:crypto';
import type { TaskEvent } from './queue/queue.ts';

/** Number of events kept for subscribers that are behind. */
const WINDOW = 10_000;
/** Time for which events are kept after the last subscriber has left, so that it can reconnect without a gap. */
const RETENTION_MS = 60_000;

/** A subscriber's position: the number of the last event that it has seen. */
export interface Cursor {
  seen: number;
}

/**
 * The sequence of task events. The newest events are kept, so that each subscriber reads at its own pace; a subscriber further
 * behind learns the number of events that it has missed. Without subscribers, events are only counted.
 */
export class TaskEvents {
  /** Prefix of event ids, which distinguishes the events of this process from those of an earlier one. */
  readonly #epoch = randomBytes(4).toString('hex');
  readonly #window: (TaskEvent | undefined)[] = [];
  readonly #subscribers = new Set<{ wake: () => void; end: () => void }>();
  /** Resolvers of requests that wait for a task to finish, by task id. */
  readonly #waiters = new Map<string, Set<() => void>>();
  /** Number of the newest event. */
  #newest = 0;
  /** Number of the last event that is no longer kept. */
  #evicted = 0;
  #recording = false;
  #retentionTimer: NodeJS.Timeout | undefined;
  #closed = false;

  get subscribers(): number {
    return this.#subscribers.size;
  }

  /** Records an event. Costs next to nothing without subscribers. */
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

  /** Calls `wake` at each new event, and `end` when no more will follow, until the returned function is called. */
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

  /** Returns a cursor after the newest event. */
  now(): Cursor {
    return { seen: this.#newest };
  }

  /** Returns a cursor after the event with that id, or undefined if the event is not from this process. */
  after(eventId: string): Cursor | undefined {
    const [epoch, number = ''] = eventId.split('-');
    const seen = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
    return epoch === this.#epoch && seen <= this.#newest ? { seen } : undefined;
  }

  /** Returns the id of the last event that a cursor has seen. */
  idOf({ seen }: Cursor): string {
    return `${this.#epoch}-${seen}`;
  }

  /** Moves a cursor past the events that are no longer kept. @returns their number */
  skipMissed(cursor: Cursor): number {
    const missed = Math.max(0, this.#evicted - cursor.seen);
    cursor.seen += missed;
    return missed;
  }

  /** Returns the next event and advances the cursor. Undefined if there is no event yet. */
  next(cursor: Cursor): TaskEvent | undefined {
    if (cursor.seen >= this.#newest) return undefined;
    cursor.seen += 1;
    return this.#window[cursor.seen % WINDOW];
  }

  /** Resolves when the task is completed or discarded, after `ms`, when `signal` aborts, or on `close`. */
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
