import { threadId } from 'node:worker_threads';

/** Maximum time that a thread sleeps while it waits for the lock, because the thread that holds the lock may have died. */
const TIMEOUT_MS = 200;

/** Number of busy-wait checks before a thread sleeps. They take about as long as a usual write, and less than sleeping and waking. */
const MAX_SPINS = 20_000;

/**
 * Lock for the threads that write to one SQLite database. With SQLite's lock alone, a waiting thread would sleep many times longer than
 * a write takes. This lock is advisory: after a timeout, a thread writes without it, and only SQLite's lock excludes other writers.
 */
export class WriteLock {
  /** Array of one element: the id of the thread that holds the lock, or 0 if the lock is free. */
  readonly #holder: Int32Array;

  constructor(shared: SharedArrayBuffer) {
    this.#holder = new Int32Array(shared);
  }

  run<T>(work: () => T): T {
    this.#acquire();
    try {
      return work();
    } finally {
      if (Atomics.compareExchange(this.#holder, 0, threadId, 0) === threadId) Atomics.notify(this.#holder, 0, 1);
    }
  }

  #acquire(): void {
    for (let spin = 0; spin < MAX_SPINS && Atomics.load(this.#holder, 0) !== 0; spin++);
    for (;;) {
      const holder = Atomics.compareExchange(this.#holder, 0, 0, threadId);
      if (holder === 0 || Atomics.wait(this.#holder, 0, holder, TIMEOUT_MS) === 'timed-out') return;
    }
  }
}
