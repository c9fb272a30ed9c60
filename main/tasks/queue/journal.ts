import type { DeadLetter, Message } from './driver.ts';

/** A message in a queue, with all that the queue knows of it. Times are milliseconds since the epoch. */
export interface Entry {
  message: Message;
  /** Its number, for good. */
  seq: number;
  /** Its place in the order of waiting; a retry gets a new one. */
  turn: number;
  bytes: number;
  attempts: number;
  crashes: number;
  firstAt: number;
}

/**
 * Where a queue writes down what is to outlive the process. What is written in order is kept in order; each promise
 * is fulfilled when its entry is safe from the end of the process, that of `accept` and `bury` from a loss of power.
 */
export interface Journal {
  accept(entry: Entry): Promise<void>;
  /** An attempt begins: if the process dies now, it may have died of it. */
  begin(entry: Entry): Promise<void>;
  /** The attempt did not take place after all. */
  release(entry: Entry): Promise<void>;
  complete(entry: Entry): Promise<void>;
  /** The attempt failed; the next is due at `dueAt`. */
  postpone(entry: Entry, dueAt: number): Promise<void>;
  /** The entry is given up; `dropped` had to make room for it. */
  bury(entry: Entry, letter: DeadLetter, dropped: readonly DeadLetter[]): Promise<void>;
  /** Writes what is left. */
  close(): Promise<void>;
}

/** What a journal held when it was opened. */
export interface Recovered {
  /** In the order of waiting. */
  entries: ReadonlyArray<Entry & { dueAt: number }>;
  deadLetters: readonly DeadLetter[];
}
