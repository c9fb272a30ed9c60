import { availableParallelism } from 'node:os';

/** Maximum duration of a poll: longer than a batch of short tasks takes, and too short to keep a core busy. */
const POLL_MS = 0.3;

/**
 * Keeps the main thread's event loop awake for a moment after a batch was started, because the batch may end soon and waking a
 * sleeping thread takes about as long as a short task. Other events are handled meanwhile.
 */
export class BusyPoll {
  readonly #allowed: boolean;
  #until = 0;
  #polling = false;

  /** @param cores number of CPU cores. Nothing is polled on a single core, because polling would delay the worker thread */
  constructor(cores: number = availableParallelism()) {
    this.#allowed = cores > 1;
  }

  /** Keeps the event loop awake for the next {@link POLL_MS} milliseconds. */
  begin(): void {
    if (!this.#allowed) return;
    this.#until = performance.now() + POLL_MS;
    if (this.#polling) return;
    this.#polling = true;
    setImmediate(this.#poll);
  }

  end(): void {
    this.#until = 0;
  }

  readonly #poll = () => {
    this.#polling = performance.now() < this.#until;
    if (this.#polling) setImmediate(this.#poll);
  };
}
