import type { TaskEvent } from '../queue/queue.ts';

/** Maximum number of seconds kept. */
const MAX_SECONDS = 900;

/** Columns of the history, oldest second first. All columns have the same length. */
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

/**
 * Numbers of task events in each of the last 900 complete seconds. Seconds before the construction are absent. An event costs one
 * increment: it reads no clock and allocates nothing.
 */
export class QueueHistory {
  readonly #now: () => number;
  /** Complete seconds, oldest first. Only the last `#seconds` numbers of a column are valid. */
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
   * Completes all seconds before the current one. If several seconds have passed since the last call, all events count in the first of
   * them. If the clock was set back, the kept seconds move back with it.
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

  /** Returns the complete seconds. @param since omits this second and all earlier ones */
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
