import { availableParallelism } from 'node:os';

/** Longer than a batch of short tasks takes; what takes longer is not worth a core. */
const POLL_MS = 0.3;

/**
 * Keeps the event loop from sleeping for a moment, because something is about to happen: the system takes about as long to
 * wake a thread that sleeps as a short task takes in all. It turns meanwhile as always, and everything else has its turn.
 */
export class BusyPoll {
  readonly #allowed: boolean;
  #until = 0;
  #turning = false;

  /** @param cores how many there are; with one, whoever is waited for would have to wait, too */
  constructor(cores: number = availableParallelism()) {
    this.#allowed = cores > 1;
  }

  /** Begins, or goes on, for a fraction of a millisecond at most. */
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
