import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { TaskSubject } from '../../db/task-store.ts';
import type { Clock, Random } from '../../workers/shared/clock.ts';

/** State change or progress of a task. `runAt` and `dueAt` are in milliseconds since the epoch. */
export type TaskChange =
  | { event: 'accepted' | 'completed' | 'cancelled' }
  /** Accepted, and due later. `accepted` follows if the task is made due before. */
  | { event: 'scheduled'; runAt: number }
  /** A dead letter was purged, or evicted because of a bound. */
  | { event: 'purged' }
  | { event: 'started'; attempt: number }
  | { event: 'progress'; attempt: number; fraction: number; note?: string }
  | { event: 'retrying'; attempts: number; reason: string; dueAt: number }
  | { event: 'failed'; attempts: number; reason: string };

/** `action` is undefined if it cannot be read from the message. `at` is in milliseconds since the epoch. */
export type TaskEvent = Partial<TaskSubject> & { id: string; at: number } & TaskChange;

/** Event of a task, or the pause or resumption of the queue. */
export type QueueEvent = TaskEvent | { event: 'paused' | 'resumed'; at: number };

interface TaskEventsOptions {
  clock: Clock;
  random: Pick<Random, 'uuid'>;
  /** Called with true when the first subscriber needs other nodes' events, and with false after the last one has left. */
  follow?: ((isFollowing: boolean) => void) | undefined;
}

const MAX_KEPT_EVENTS = 10_000;
/** Time for which events are kept after the last subscriber disconnects, so that a subscriber can resume. */
const RETENTION_MS = 60_000;

const END_EVENTS: ReadonlySet<QueueEvent['event']> = new Set(['completed', 'failed', 'cancelled']);

/** Returns the emitter's name for the end of a task. An emitter throws at `error`, which an id of another node may be. */
const endOf = (id: string) => `end ${id}`;

/** A subscriber's position in the event stream: the number of the last event that the subscriber has read. */
export interface Cursor {
  seen: number;
  /** Whether ids are encrypted, so that they do not tell a subscriber of few tasks how many events there are. */
  isSealed?: boolean;
}

const CIPHER = 'aes-128-ecb';

/** Numbers the events of all tasks, and keeps the newest events so that each subscriber can read at its own pace. */
export class TaskEvents {
  readonly #clock: Clock;
  readonly #follow: (isFollowing: boolean) => void;
  /** Random prefix of event ids, so that event ids from earlier processes are recognized. */
  readonly #epoch: string;
  readonly #key: Buffer;
  readonly #window: (QueueEvent | undefined)[] = [];
  readonly #subscribers = new Set<{ wake: () => void; end: () => void }>();
  readonly #ends = new EventEmitter().setMaxListeners(0);
  #newestNumber = 0;
  #newestEvicted = 0;
  /** Number of subscribers, and of listeners for the end of a task. */
  #users = 0;
  /** Whether events are kept, and those of other nodes are received. */
  #isFollowing = false;
  #cancelRetention: (() => void) | undefined;
  #closed = false;

  constructor({ clock, random, follow = () => {} }: TaskEventsOptions) {
    this.#clock = clock;
    this.#follow = follow;
    const secret = random.uuid();
    this.#epoch = secret.slice(0, 8);
    this.#key = createHash('sha256').update(secret).digest().subarray(0, 16);
  }

  get subscribers(): number {
    return this.#subscribers.size;
  }

  readonly record = (event: QueueEvent): void => {
    this.#newestNumber += 1;
    if (this.#isFollowing) {
      this.#window[this.#newestNumber % MAX_KEPT_EVENTS] = event;
      this.#newestEvicted = Math.max(this.#newestEvicted, this.#newestNumber - MAX_KEPT_EVENTS);
      for (const { wake } of this.#subscribers) wake();
      if ('id' in event && END_EVENTS.has(event.event)) this.#ends.emit(endOf(event.id));
    }
  };

  /** Calls `wake` after each new event, and `end` when `close` is called. @returns a function that unsubscribes */
  subscribe(wake: () => void, end: () => void): () => void {
    if (this.#closed) {
      setImmediate(end);
      return () => {};
    }
    const subscriber = { wake, end };
    this.#enter();
    this.#subscribers.add(subscriber);
    return () => {
      if (this.#subscribers.delete(subscriber)) this.#leave();
    };
  }

  /**
   * Calls `listener` when the task completes, fails or is cancelled, and when `close` is called. The returned function
   * removes the listener, and must be called once. An event of another node may be missed.
   */
  onEnd(id: string, listener: () => void): () => void {
    if (this.#closed) {
      listener();
      return () => {};
    }
    this.#enter();
    this.#ends.on(endOf(id), listener);
    return () => {
      this.#ends.off(endOf(id), listener);
      this.#leave();
    };
  }

  now(): Cursor {
    return { seen: this.#newestNumber };
  }

  /** Returns a cursor at the event with this id, or undefined if the id was created by another process. */
  after(eventId: string): Cursor | undefined {
    const [epoch, number = ''] = this.#opened(eventId).split('-');
    const seen = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
    return epoch === this.#epoch && seen <= this.#newestNumber ? { seen } : undefined;
  }

  idOf({ seen, isSealed }: Cursor): string {
    if (!isSealed) return `${this.#epoch}-${seen}`;
    const block = `${this.#epoch}${seen.toString(36).padStart(8, '0')}`;
    return createCipheriv(CIPHER, this.#key, null).update(block).toString('hex');
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

  close(): void {
    this.#closed = true;
    this.#cancelRetention?.();
    for (const name of this.#ends.eventNames()) this.#ends.emit(name);
    for (const { end } of [...this.#subscribers]) end();
  }

  /** Decrypts a sealed id. Returns any other id unchanged. */
  #opened(eventId: string): string {
    if (!/^[0-9a-f]{32}$/.test(eventId)) return eventId;
    const cipher = createDecipheriv(CIPHER, this.#key, null).setAutoPadding(false);
    const block = cipher.update(eventId, 'hex', 'latin1');
    return `${block.slice(0, 8)}-${Number.parseInt(block.slice(8), 36)}`;
  }

  #enter(): void {
    this.#users += 1;
    this.#cancelRetention?.();
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    this.#newestEvicted = this.#newestNumber;
    this.#follow(true);
  }

  #leave(): void {
    this.#users -= 1;
    if (this.#users > 0 || this.#closed) return;
    this.#cancelRetention = this.#clock.timer(RETENTION_MS, () => {
      this.#isFollowing = false;
      this.#window.length = 0;
      this.#newestEvicted = this.#newestNumber;
      this.#follow(false);
    });
  }
}
