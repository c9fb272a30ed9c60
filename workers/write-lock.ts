import { threadId } from 'node:worker_threads';

/** Time after which a waiting thread takes the lock from its holder, because the holder may have died. */
const TIMEOUT_MS = 200;

/** Number of busy-wait checks before a thread sleeps. Spinning takes about as long as a typical write, less than sleeping and waking. */
const MAX_SPINS = 20_000;

/**
 * Lock for the threads that write to one SQLite database. With SQLite's lock alone, a waiting thread would sleep many times longer than
 * a write takes. This lock is advisory: a thread that has waited too long takes it over, so only SQLite's lock guarantees exclusion.
 */
export class WriteLock {
  /** Id of the thread that holds the lock, or 0 if the lock is free. Array of one element. */
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
    for (let expected = 0; ; ) {
      const holder = Atomics.compareExchange(this.#holder, 0, expected, threadId);
      if (holder === expected) return;
      const isStuck = holder !== 0 && Atomics.wait(this.#holder, 0, holder, TIMEOUT_MS) === 'timed-out';
      expected = isStuck ? holder : 0;
    }
  }
}
