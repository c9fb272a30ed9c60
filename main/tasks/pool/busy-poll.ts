import { availableParallelism } from 'node:os';

/** Longest poll: longer than a batch of short tasks takes, and too short to cost a core. */
const POLL_MS = 0.3;

/**
 * Keeps the event loop from sleeping while the end of a batch is near, because waking a thread takes about as long as a short
 * task. All other events are handled meanwhile.
 */
export class BusyPoll {
  readonly #allowed: boolean;
  #until = 0;
  #turning = false;

  /** @param cores with a single core, polling would delay the worker */
  constructor(cores: number = availableParallelism()) {
    this.#allowed = cores > 1;
  }

  /** Starts, or prolongs, the poll. */
  begin(): void {
    if (!this.#allowed) return;
    this.#until = performance.now() + POLL_MS;
    if (this.#turning) return;
    this.#turning = true;
    setImmediate(this.#turn);
  }

  end(): void {
    this.#until = 0;
  }

  readonly #turn = () => {
    this.#turning = performance.now() < this.#until;
    if (this.#turning) setImmediate(this.#turn);
  };
}
