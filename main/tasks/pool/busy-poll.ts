import { availableParallelism } from 'node:os';

/** Longest poll in milliseconds: longer than a batch of short tasks takes, and too short to keep a core busy. */
const POLL_MS = 0.3;

/**
 * Keeps the event loop from sleeping at the start of a batch, which may end soon, because waking a thread takes about as long as
 * a short task. Other events are handled meanwhile.
 */
export class BusyPoll {
  readonly #allowed: boolean;
  #until = 0;
  #polling = false;

  /** @param cores with a single core, polling would delay the worker */
  constructor(cores: number = availableParallelism()) {
    this.#allowed = cores > 1;
  }

  /** Starts or extends the poll. */
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
