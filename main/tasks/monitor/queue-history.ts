import type { TaskEvent } from '../queue/queue.ts';

/** Maximum number of seconds kept. */
const MAX_SECONDS = 900;

/** Counts of the history, as one array per kind. Each array has one number per second, oldest first. */
export interface HistoryColumns {
  accepted: number[];
  completed: number[];
  failed: number[];
  retried: number[];
  /** Number of unsettled messages at the end of each second. */
  depth: number[];
}

/** The history of the seconds before and including `end`. */
export interface HistoryAnswer extends HistoryColumns {
  /** Newest complete second, in Unix seconds. */
  end: number;
  /** Number of seconds in each column. */
  seconds: number;
}

type Column = keyof HistoryColumns;

/** Counts task events per second, and keeps the counts of the last 900 complete seconds. */
export class QueueHistory {
  readonly #now: () => number;
  /** Counts of the complete seconds, oldest first. Only the last `#seconds` elements of each array are valid. */
  readonly #columns: Readonly<Record<Column, Uint32Array>> = {
    accepted: new Uint32Array(MAX_SECONDS),
    completed: new Uint32Array(MAX_SECONDS),
    failed: new Uint32Array(MAX_SECONDS),
    retried: new Uint32Array(MAX_SECONDS),
    depth: new Uint32Array(MAX_SECONDS),
  };
  /** Number of complete seconds kept. */
  #seconds = 0;
  /** Newest complete second, in Unix seconds. */
  #newest: number;
  #accepted = 0;
  #completed = 0;
  #failed = 0;
  #retried = 0;

  /** @param now wall clock in milliseconds since the epoch */
  constructor(now: () => number = Date.now) {
    this.#now = now;
    this.#newest = this.#second() - 1;
  }

  /** Counts an event in the current second. */
  record({ event }: Pick<TaskEvent, 'event'>): void {
    switch (event) {
      case 'accepted':
        this.#accepted += 1;
        break;
      case 'completed':
        this.#completed += 1;
        break;
      case 'failed':
        this.#failed += 1;
        break;
      case 'retrying':
        this.#retried += 1;
        break;
    }
  }

  /**
   * Stores the counts of the seconds that have ended since the last call. If several seconds have ended, all events are
   * counted in the first one.
   *
   * @param depth current number of unsettled messages
   */
  advance(depth: number): void {
    const second = this.#second();
    if (second < this.#newest) this.#newest = second - 1;
    const passed = Math.min(second - 1 - this.#newest, MAX_SECONDS);
    if (passed <= 0) return;
    this.#newest = second - 1;
    this.#push({
      accepted: this.#accepted,
      completed: this.#completed,
      failed: this.#failed,
      retried: this.#retried,
      depth,
    });
    this.#accepted = this.#completed = this.#failed = this.#retried = 0;
    const idle = { accepted: 0, completed: 0, failed: 0, retried: 0, depth };
    for (let second = 1; second < passed; second++) this.#push(idle);
  }

  /** Returns the counts of the complete seconds after `since` (Unix seconds). */
  read(since = 0): HistoryAnswer {
    const seconds = Math.max(0, Math.min(this.#seconds, this.#newest - since));
    const last = (column: Column) => Array.from(this.#columns[column].subarray(MAX_SECONDS - seconds));
    return {
      end: this.#newest,
      seconds,
      accepted: last('accepted'),
      completed: last('completed'),
      failed: last('failed'),
      retried: last('retried'),
      depth: last('depth'),
    };
  }

  #push(second: Readonly<Record<Column, number>>): void {
    this.#seconds = Math.min(this.#seconds + 1, MAX_SECONDS);
    for (const [name, column] of Object.entries(this.#columns)) {
      column.copyWithin(0, 1);
      column[MAX_SECONDS - 1] = second[name as Column];
    }
  }

  #second(): number {
    return Math.floor(this.#now() / 1000);
  }
}
