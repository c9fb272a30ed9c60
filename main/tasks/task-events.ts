import { randomBytes } from 'node:crypto';
import type { TaskEvent } from './queue/queue.ts';

/** Events that are remembered for those who are behind. */
const WINDOW = 10_000;
/** For how long after the last one has gone they are remembered, should it come back. */
const MEMORY_MS = 60_000;

/** Where someone is in the sequence of events: the number of the last one that it has seen. */
export interface Cursor {
  seen: number;
}

/**
 * What happens to tasks, in order, for those who follow it. The latest events are kept, so that each follows at a pace of its own;
 * who falls behind them is told how many it has missed. While nobody follows, events are counted and no more.
 */
export class TaskEvents {
  /** Tells the events of this process from those of an earlier one. */
  readonly #epoch = randomBytes(4).toString('hex');
  readonly #window: (TaskEvent | undefined)[] = [];
  readonly #followers = new Set<{ wake: () => void; end: () => void }>();
  /** Whoever waits for the end of a task, by its id: no more than there are requests. */
  readonly #waiters = new Map<string, Set<() => void>>();
  /** The number of the newest event, and of the last one before those that are kept. */
  #newest = 0;
  #forgotten = 0;
  #recording = false;
  #forgetting: NodeJS.Timeout | undefined;
  #closed = false;

  get followers(): number {
    return this.#followers.size;
  }

  /** Notes an event. It costs next to nothing while nobody follows. */
  readonly note = (event: TaskEvent): void => {
    this.#newest += 1;
    if (this.#recording) {
      this.#window[this.#newest % WINDOW] = event;
      this.#forgotten = Math.max(this.#forgotten, this.#newest - WINDOW);
      for (const follower of this.#followers) follower.wake();
    }
    if (this.#waiters.size > 0 && (event.event === 'completed' || event.event === 'failed'))
      this.#tellWaiters(event.id);
  };

  /**
   * Follows the events until the returned function is called.
   *
   * @param wake told that there are new ones, many times over
   * @param end told that there will be no more
   */
  follow(wake: () => void, end: () => void): () => void {
    if (this.#closed) {
      setImmediate(end);
      return () => {};
    }
    const follower = { wake, end };
    clearTimeout(this.#forgetting);
    if (!this.#recording) {
      this.#recording = true;
      this.#forgotten = this.#newest;
    }
    this.#followers.add(follower);
    return () => {
      if (!this.#followers.delete(follower) || this.#followers.size > 0 || this.#closed) return;
      this.#forgetting = setTimeout(() => this.#forget(), MEMORY_MS).unref();
    };
  }

  /** Where someone starts that has seen nothing. */
  now(): Cursor {
    return { seen: this.#newest };
  }

  /** Where someone goes on that has seen the event with that id; undefined where it is none of this process's. */
  after(eventId: string): Cursor | undefined {
    const [epoch, number = ''] = eventId.split('-');
    const seen = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
    return epoch === this.#epoch && seen <= this.#newest ? { seen } : undefined;
  }

  /** The id of the last event that a cursor has seen. */
  idOf({ seen }: Cursor): string {
    return `${this.#epoch}-${seen}`;
  }

  /** How many events a cursor has missed for good; it goes on behind them. */
  skipMissed(cursor: Cursor): number {
    const missed = Math.max(0, this.#forgotten - cursor.seen);
    cursor.seen += missed;
    return missed;
  }

  /** The next event, unless there is none yet; the cursor goes on behind it. */
  next(cursor: Cursor): TaskEvent | undefined {
    if (cursor.seen >= this.#newest) return undefined;
    cursor.seen += 1;
    return this.#window[cursor.seen % WINDOW];
  }

  /** Fulfilled when the task has come to its end, when `ms` are over, on `signal`, or when there will be no more events. */
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

  /** Ends all that follow or wait. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#forgetting);
    for (const id of [...this.#waiters.keys()]) this.#tellWaiters(id);
    for (const { end } of [...this.#followers]) end();
  }

  #tellWaiters(id: string): void {
    for (const resolve of this.#waiters.get(id) ?? []) resolve();
  }

  #forget(): void {
    this.#recording = false;
    this.#window.length = 0;
    this.#forgotten = this.#newest;
  }
}
