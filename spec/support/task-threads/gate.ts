/**
 * Lets a spec hold the threads of a pool: a handler tells that it has begun and stands still until the gate is
 * opened. Shared memory, so that it works while a thread is blocked, and holds nothing open.
 */
export class Gate {
  readonly shared: SharedArrayBuffer;
  readonly #cells: Int32Array;

  constructor(shared = new SharedArrayBuffer(8)) {
    this.shared = shared;
    this.#cells = new Int32Array(shared);
  }

  /** In a thread: tells that a handler has begun, and blocks the thread until the gate is opened. */
  pass(): void {
    Atomics.add(this.#cells, 0, 1);
    Atomics.notify(this.#cells, 0);
    Atomics.wait(this.#cells, 1, 0);
  }

  /** In the spec: waits until `count` handlers have begun. */
  async begun(count: number): Promise<void> {
    for (;;) {
      const seen = Atomics.load(this.#cells, 0);
      if (seen >= count) return;
      await Atomics.waitAsync(this.#cells, 0, seen).value;
    }
  }

  /** In the spec: lets everyone pass, now and from now on. */
  open(): void {
    Atomics.store(this.#cells, 1, 1);
    Atomics.notify(this.#cells, 1);
  }
}
