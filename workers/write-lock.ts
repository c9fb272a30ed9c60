import { threadId } from 'node:worker_threads';

/** How long a thread waits for another's turn to end; the one that has it may be dead. */
const PATIENCE_MS = 200;

/** Looks that a thread takes before it sleeps: they last about as long as another's turn, sleeping and waking longer. */
const SPINS = 20_000;

/**
 * Lets the threads that write to one database take turns. SQLite has a lock of its own, but a thread that finds it taken
 * sleeps for a millisecond and more, many times as long as a turn takes. The lock is a courtesy: a thread that
 * waited too long goes ahead, and SQLite's decides.
 */
export class WriteLock {
  /** One cell: the thread whose turn it is, or 0. */
  readonly #holder: Int32Array;

  /** @param shared four bytes, the same for all threads */
  constructor(shared: SharedArrayBuffer) {
    this.#holder = new Int32Array(shared);
  }

  /** Runs `work` when it is this thread's turn. @throws whatever `work` throws */
  run<T>(work: () => T): T {
    this.#take();
    try {
      return work();
    } finally {
      if (Atomics.compareExchange(this.#holder, 0, threadId, 0) === threadId) Atomics.notify(this.#holder, 0, 1);
    }
  }

  #take(): void {
    for (let turn = 0; turn < SPINS && Atomics.load(this.#holder, 0) !== 0; turn++);
    for (;;) {
      const holder = Atomics.compareExchange(this.#holder, 0, 0, threadId);
      if (holder === 0 || Atomics.wait(this.#holder, 0, holder, PATIENCE_MS) === 'timed-out') return;
    }
  }
}
