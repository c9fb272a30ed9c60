const SHORTEST_MS = 100;
const LONGEST_MS = 5000;

/** Delay after a failed write, during which no messages are taken from the queue. Doubles with each further failure. */
export class WriteBackoff {
  reason: string | undefined;
  readonly #onOver: () => void;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;

  constructor(onOver: () => void) {
    this.#onOver = onOver;
  }

  get isActive(): boolean {
    return this.#timer !== undefined;
  }

  /** Starts a backoff unless one is active. @returns the length in milliseconds, or undefined if a backoff is active */
  start(reason: string): number | undefined {
    if (this.isActive) return undefined;
    const delayMs = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** this.#failures++);
    this.reason = reason;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#onOver();
    }, delayMs);
    return delayMs;
  }

  /** Resets the length of the next backoff to the minimum. Must be called after a successful write. */
  reset(): void {
    this.#failures = 0;
    this.reason = undefined;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
