/**
 * Lets a spec block the threads of a pool: a handler reports that it has begun, and blocks until the gate is opened.
 * Shared memory works while a thread is blocked, and keeps no handle open.
 */
export class Gate {
  readonly shared: SharedArrayBuffer;
  readonly #cells: Int32Array;

  constructor(shared = new SharedArrayBuffer(8)) {
    this.shared = shared;
    this.#cells = new Int32Array(shared);
  }

  /** Called in a thread. Reports that a handler has begun, and blocks the thread until the gate is opened. */
  pass(): void {
    Atomics.add(this.#cells, 0, 1);
    Atomics.notify(this.#cells, 0);
    Atomics.wait(this.#cells, 1, 0);
  }

  /** Called in the spec. Waits until `count` handlers have begun. */
  async begun(count: number): Promise<void> {
    for (;;) {
      const seen = Atomics.load(this.#cells, 0);
      if (seen >= count) return;
      await Atomics.waitAsync(this.#cells, 0, seen).value;
    }
  }

  /** Called in the spec. Unblocks all handlers, now and in the future. */
  open(): void {
    Atomics.store(this.#cells, 1, 1);
    Atomics.notify(this.#cells, 1);
  }
}
