import type { TaskEvent } from '../queue/queue.ts';

const MAX_SECONDS = 900;

/** Event counts per second, oldest second first. */
export interface HistoryColumns {
  accepted: number[];
  completed: number[];
  failed: number[];
  retried: number[];
  /** Number of unsettled messages at the end of each second. */
  depth: number[];
}

export interface HistoryAnswer extends HistoryColumns {
  /** Newest complete second, in Unix seconds. */
  end: number;
  /** Number of elements of each array of {@link HistoryColumns}. */
  seconds: number;
}

type Column = keyof HistoryColumns;

/** Counts task events per second, and keeps the counts of the last 900 complete seconds. */
export class QueueHistory {
  readonly #now: () => number;
  /** Counts per second, newest second last. Only the last `#seconds` elements of each column are valid. */
  readonly #columns: Readonly<Record<Column, Uint32Array>> = {
    accepted: new Uint32Array(MAX_SECONDS),
    completed: new Uint32Array(MAX_SECONDS),
    failed: new Uint32Array(MAX_SECONDS),
    retried: new Uint32Array(MAX_SECONDS),
    depth: new Uint32Array(MAX_SECONDS),
  };
  #seconds = 0;
  #newestSecond: number;
  #accepted = 0;
  #completed = 0;
  #failed = 0;
  #retried = 0;

  constructor(now: () => number = Date.now) {
    this.#now = now;
    this.#newestSecond = this.#second() - 1;
  }

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

  /** Appends the seconds that ended since the last call. All events since then count for the first of these seconds. */
  advance(depth: number): void {
    const second = this.#second();
    if (second < this.#newestSecond) this.#newestSecond = second - 1;
    const passed = Math.min(second - 1 - this.#newestSecond, MAX_SECONDS);
    if (passed <= 0) return;
    this.#newestSecond = second - 1;
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
    const seconds = Math.max(0, Math.min(this.#seconds, this.#newestSecond - since));
    const last = (column: Column) => Array.from(this.#columns[column].subarray(MAX_SECONDS - seconds));
    return {
      end: this.#newestSecond,
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
