import { threadId } from 'node:worker_threads';

/** Time after which a waiting thread takes the lock from its holder, because the holder may have died. */
const TIMEOUT_MS = 200;

/** Number of times a thread polls the lock before it sleeps. The polling takes about as long as a typical write. */
const MAX_SPINS = 20_000;

/**
 * Lock that a thread takes before it writes to SQLite. Saves time, because a thread that waits for SQLite's own lock
 * sleeps much longer than a write takes. Mutual exclusion is still guaranteed by SQLite's own lock.
 */
export class WriteLock {
  /** Array of one element: the id of the thread that holds the lock, or 0. */
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
